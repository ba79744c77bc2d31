package leaderonly

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// node forwards requests, or receives forwarded ones.
type node struct {
	*fake
	server    *httptest.Server
	asked     atomic.Int64
	transport *http.Transport
	last      atomic.Pointer[http.Header]
}

func newNode(t *testing.T, opts Options, next http.Handler) *node {
	n := &node{fake: newFake(Leader{}), transport: &http.Transport{ExpectContinueTimeout: 3 * time.Second}}
	opts.Elsewhere = Forward
	if opts.Transport == nil {
		opts.Transport = n.transport
	}
	h := Handler(n.fake, next, opts)
	n.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		header := r.Header.Clone()
		n.last.Store(&header)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		n.server.Close()
		n.transport.CloseIdleConnections()
	})
	return n
}

func (n *node) send(t *testing.T, method string, header http.Header) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, n.server.URL+"/a%2Fb?c=d", strings.NewReader(" body"))
	require.NoError(t, err)
	r.Header = header
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(body)
}

// echo answers with the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprint(w, r.Method, " ", r.RequestURI, " ", r.Host, body != nil, string(body))
})

func TestForwards(t *testing.T) {
	leader, follower := newNode(t, Options{}, echo), newNode(t, Options{}, echo)
	leader.become(leads())
	follower.become(follows(leader.server.URL))
	code, _, body := follower.send(t, "POST", http.Header{"X-Forwarded-For": {"1.2.3.4"}, "X-Forwarded-Proto": {"https"},
		RetryHeader: {"1"}})
	require.Equal(t, http.StatusOK, code, body)
	require.Equal(t, "POST /a%2Fb?c=d "+strings.TrimPrefix(follower.server.URL, "http://")+"true body", body)
	got := *leader.last.Load()
	require.Equal(t, "1.2.3.4, 127.0.0.1", got.Get("X-Forwarded-For"))
	require.Equal(t, "https", got.Get("X-Forwarded-Proto"))
	require.Equal(t, "5", got.Get(ForwardedHeader))
	require.Empty(t, got.Get(RetryHeader))
	code, _, _ = follower.send(t, "GET", http.Header{})
	require.Equal(t, http.StatusOK, code)
	require.EqualValues(t, 1, leader.asked.Load(), "reads are answered anywhere")
}

// If two nodes take each other for the leader, a request is forwarded once and then refused.
func TestForwardsOnce(t *testing.T) {
	a, b := newNode(t, Options{Wait: 100 * time.Millisecond}, echo), newNode(t, Options{Wait: time.Millisecond}, echo)
	a.become(follows(b.server.URL))
	b.become(follows(a.server.URL))
	code, header, body := a.send(t, "POST", http.Header{})
	require.Equal(t, http.StatusServiceUnavailable, code, body)
	require.Equal(t, string(NotLeader), header.Get(RefusedHeader))
	require.EqualValues(t, 1, a.asked.Load())
	require.EqualValues(t, 1, b.asked.Load())
}

// If a leader refuses connections, or the request, the request waits for another leader, with its body.
func TestForwardsToTheNextLeader(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	former := newNode(t, Options{Wait: time.Millisecond}, echo)
	former.become(follows("http://127.0.0.1:1"))
	for _, gone := range []string{"http://" + dead.Addr().String(), former.server.URL} {
		leader, follower := newNode(t, Options{}, echo), newNode(t, Options{Wait: 20 * time.Second}, echo)
		leader.become(leads())
		follower.become(follows(gone))
		go func() {
			for {
				follower.mu.Lock()
				waiting := follower.waiting
				follower.mu.Unlock()
				if waiting > 0 {
					break
				}
				<-time.After(time.Millisecond)
			}
			follower.become(Leader{})
			follower.become(Leader{Name: "c:1", URL: leader.server.URL, Token: 7})
		}()
		code, _, body := follower.send(t, "POST", http.Header{})
		require.Equal(t, http.StatusOK, code, body)
		require.Contains(t, body, " body")
	}
	follower := newNode(t, Options{Wait: 10 * time.Millisecond}, echo)
	follower.become(follows("http://" + dead.Addr().String()))
	code, header, _ := follower.send(t, "POST", http.Header{})
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, string(NotLeader), header.Get(RefusedHeader))
}

// If a connection breaks after the request was sent, the outcome is unknown, and the request is not sent again.
func TestOutcomeUnknown(t *testing.T) {
	var asked atomic.Int64
	broken := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer broken.Close()
	follower := newNode(t, Options{}, echo)
	follower.become(follows(broken.URL))
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		asked.Store(0)
		code, header, body := follower.send(t, method, http.Header{})
		require.Equal(t, http.StatusBadGateway, code)
		require.Empty(t, header.Get(RefusedHeader))
		require.Contains(t, body, string(OutcomeUnknown))
		require.EqualValues(t, 1, asked.Load())
	}
}

func TestForwardsSoManyAtATime(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	leader := newNode(t, Options{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(inside)
		<-goOn
	}))
	leader.become(leads())
	follower := newNode(t, Options{MaxForwarded: 1}, echo)
	follower.become(follows(leader.server.URL))
	ended := make(chan int)
	go func() {
		code, _, _ := follower.send(t, "POST", http.Header{})
		ended <- code
	}()
	<-inside
	code, header, body := follower.send(t, "POST", http.Header{})
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, leader.server.URL, header.Get(LeaderHeader))
	require.Contains(t, body, "too many")
	close(goOn)
	require.Equal(t, http.StatusOK, <-ended)
}

// A node that learns of a new leader later than the forwarding node waits until it has.
func TestForwardedToOneThatKnowsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(follows(there))
		h := Handler(f, handled, Options{Elsewhere: Forward})
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- call(h, "POST", "/", ForwardedHeader, "7") }()
		synctest.Wait()
		f.become(leads())
		require.Equal(t, "7 body", (<-answer).Body.String())
	})
}
