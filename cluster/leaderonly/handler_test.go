package leaderonly

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// handled answers with the token of its term.
var handled = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprint(w, TokenFrom(r.Context()), string(body))
})

func call(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(" body"))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

func requireRefused(t *testing.T, w *httptest.ResponseRecorder, reason Reason, leader string) Problem {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Equal(t, string(reason), w.Header().Get(RefusedHeader))
	require.Equal(t, leader, w.Header().Get(LeaderHeader))
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var p Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, Problem{Type: "urn:goverse:problem:" + string(reason), Title: reasonTitles[reason], Status: 503,
		Detail: p.Detail, Reason: reason, Leader: leader}, p)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail)
	return p
}

func TestTheLeaderAnswers(t *testing.T) {
	h := Handler(newFake(leads()), handled, Options{})
	w := call(h, http.MethodPost, "/work")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "7 body", w.Body.String(), "in its term")
}

func TestWhatIsTheLeadersAlone(t *testing.T) {
	f := newFake(follows(there))
	for method, alone := range map[string]bool{"GET": false, "HEAD": false, "OPTIONS": false, "TRACE": false, "POST": true,
		"PUT": true, "DELETE": true, "PATCH": true, "LOCK": true} {
		w := call(Handler(f, handled, Options{}), method, "/work")
		require.Equal(t, alone, w.Code == http.StatusServiceUnavailable, method)
	}
	require.Equal(t, http.StatusOK, call(Handler(f, handled, Options{Applies: Methods("GET")}), "POST", "/").Code)
	requireRefused(t, call(Handler(f, handled, Options{Applies: Methods("GET")}), "GET", "/"), NotLeader, there)
	requireRefused(t, call(Handler(f, handled, Options{Applies: All}), "GET", "/"), NotLeader, there)
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			leader Leader
			err    error
			reason Reason
			url    string
			waits  time.Duration
		}{
			{leader: follows(there), reason: NotLeader, url: there},
			{leader: follows(""), reason: NotLeader},
			{reason: NoLeader, waits: 2 * time.Second},
			{leader: Leader{Own: true}, reason: HandingOver, waits: 2 * time.Second},
			{err: leaderelection.ErrNotStarted, reason: NotReady},
			{err: leaderelection.ErrStopped, reason: NotReady},
		} {
			f := newFake(c.leader)
			f.err = c.err
			for _, way := range []Elsewhere{Refuse, Redirect, Forward} {
				if way != Refuse && c.url != "" {
					continue
				}
				began := time.Now()
				requireRefused(t, call(Handler(f, handled, Options{Elsewhere: way}), "POST", "/"), c.reason, c.url)
				require.Equal(t, c.waits, time.Since(began))
				if c.reason == NotLeader && c.url == "" {
					require.Contains(t, call(Handler(f, handled, Options{Elsewhere: way}), "POST", "/").Body.String(),
						"HTTPAddress", "what is missing")
				}
			}
		}
		began := time.Now()
		requireRefused(t, call(Handler(newFake(Leader{}), handled, Options{Wait: -1}), "POST", "/"), NoLeader, "")
		require.Zero(t, time.Since(began))
	})
}

// A request that arrives without a leader is answered by the next leader.
func TestWaitsForTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(Leader{Own: true}) // it gives way
		h := Handler(f, handled, Options{MaxWaiting: 2})
		answers := make(chan *httptest.ResponseRecorder, 2)
		for range 2 {
			go func() { answers <- call(h, "POST", "/") }()
		}
		synctest.Wait()
		require.Contains(t, requireRefused(t, call(h, "POST", "/"), HandingOver, "").Detail, "too many")
		f.become(leads())
		for range 2 {
			require.Equal(t, "7 body", (<-answers).Body.String())
		}
		f.become(Leader{})
		go func() { answers <- call(h, "POST", "/") }()
		synctest.Wait()
		began := time.Now()
		f.become(follows(there))
		requireRefused(t, <-answers, NotLeader, there)
		require.Equal(t, settleDelay, time.Since(began), "so that the next leader knows of it, too")
	})
}

// When a load balancer reports that all nodes refused a request, the node that is next in the queue briefly keeps
// it.
func TestComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(follows(there))
		h := Handler(f, handled, Options{})
		took := func(headers ...string) time.Duration {
			began := time.Now()
			requireRefused(t, call(h, "POST", "/", headers...), NotLeader, there)
			return time.Since(began)
		}
		require.Zero(t, took())
		require.Zero(t, took(RetryHeader, "0"))
		require.Equal(t, settleDelay, took(RetryHeader, "1"))
		f.next = true
		require.Zero(t, took())
		require.Equal(t, takeoverWait, took(RetryHeader, "1"))
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- call(h, "POST", "/", RetryHeader, "1") }()
		synctest.Wait()
		f.become(Leader{Own: true})
		synctest.Wait()
		f.become(leads())
		require.Equal(t, "7 body", (<-answer).Body.String())

		f.err = leaderelection.ErrStopped
		began := time.Now()
		requireRefused(t, call(h, "POST", "/", RetryHeader, "1"), NotReady, "")
		require.Equal(t, settleDelay, time.Since(began), "or the load balancer's retries were used up in a moment")
	})
}

// When a node stops while a request waits for a leader, the request is refused at once.
func TestStopsWhileRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(Leader{})
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- call(Handler(f, handled, Options{}), "POST", "/") }()
		synctest.Wait()
		f.stop()
		began := time.Now()
		requireRefused(t, <-answer, NotReady, "")
		require.Zero(t, time.Since(began))
	})
}

// connection is a response's writer that is slow to set the time limit of reads.
type connection struct {
	*httptest.ResponseRecorder
	used, release chan struct{}
}

func (c connection) SetReadDeadline(time.Time) error {
	close(c.used)
	<-c.release
	return nil
}

// A request is not over while its connection is still in use: net/http gives the connection to the next one.
func TestConnectionIsNotUsedAfterItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, returned := connection{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}, false
		// Once next has returned, no limit is set.
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-w.used })
		go func() {
			r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
			Handler(newFake(leads()), next, Options{}).ServeHTTP(w, r)
			returned = true
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.False(t, returned)
		close(w.release)
		synctest.Wait()
		require.True(t, returned)
	})
}

// If a leader leaves between the look-ups of its name and its URL, it is not treated as a leader without a URL.
func TestLeaderThatLeavesMeanwhile(t *testing.T) {
	a, b := leaderelection.Leader{Address: "a", Token: 1}, leaderelection.Leader{Address: "b", Token: 2}
	for name, c := range map[string]struct {
		leaders []leaderelection.Leader // in the order of the look-ups; the last one repeats
		urls    map[string]string
		want    leaderelection.Leader
		url     string
	}{
		"there":             {[]leaderelection.Leader{a}, map[string]string{"a": "x"}, a, "x"},
		"nowhere":           {[]leaderelection.Leader{a}, nil, a, ""},
		"left, another one": {[]leaderelection.Leader{a, b}, map[string]string{"b": "y"}, b, "y"},
		"left, nobody":      {[]leaderelection.Leader{a, {}}, nil, leaderelection.Leader{}, ""},
	} {
		leaders := c.leaders
		known, url := leaderWithURL(func() leaderelection.Leader {
			l := leaders[0]
			if len(leaders) > 1 {
				leaders = leaders[1:]
			}
			return l
		}, func(l leaderelection.Leader) string { return c.urls[l.Address] })
		require.Equal(t, c.want, known, name)
		require.Equal(t, c.url, url, name)
	}
}

func TestRedirects(t *testing.T) {
	f := newFake(follows(there))
	h := Handler(f, handled, Options{Elsewhere: Redirect})
	for path, want := range map[string]string{
		"/work?a=b&c=d":      there + "/work?a=b&c=d",
		"/a%2Fb":             there + "/a%2Fb",
		"//example.com/work": there + "//example.com/work",
		"http://example.com/work?to=http://example.com": there + "/work?to=http://example.com",
	} {
		w := call(h, "POST", path)
		require.Equal(t, http.StatusTemporaryRedirect, w.Code)
		require.Equal(t, want, w.Header().Get("Location"))
		require.Equal(t, there, w.Header().Get(LeaderHeader))
	}
}

// A redirect leads to the URL that the client requested, whatever path the handler sees.
func TestRedirectsBelowAPrefix(t *testing.T) {
	h := http.StripPrefix("/api", Handler(newFake(follows(there)), handled, Options{Elsewhere: Redirect}))
	require.Equal(t, there+"/api/a%2Fb?c=d", call(h, "POST", "/api/a%2Fb?c=d").Header().Get("Location"))
	r := httptest.NewRequest("POST", "/api/work", nil)
	r.RequestURI = "" // made by hand
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, there+"/work", w.Header().Get("Location"), "as well as is known")
}

// The body is not read before the decision: a client that waits for 100 Continue has not sent it.
func TestBodyIsNotReadBefore(t *testing.T) {
	f := newFake(follows(there))
	server := httptest.NewServer(Handler(f, handled, Options{}))
	defer server.Close()
	ask := func() (first string) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		require.NoError(t, err)
		first, err = bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		return first
	}
	require.Contains(t, ask(), "503")
	f.become(leads())
	require.Contains(t, ask(), "100 Continue")
}
