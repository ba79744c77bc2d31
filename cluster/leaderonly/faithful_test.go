package leaderonly

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raw sends text to a server, and returns its response byte by byte.
func raw(t *testing.T, server *httptest.Server, text string) *bufio.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return bufio.NewReader(conn)
}

// A forwarding node makes the leader signal when to send the body. The client did not ask for that signal and
// does not get it. Headers already in the response are kept.
func TestForwardsNoContinue(t *testing.T) {
	leader := newNode(t, Options{}, echo)
	leader.become(leads())
	f := newFake(follows(leader.server.URL))
	transport := &http.Transport{ExpectContinueTimeout: 3 * time.Second}
	defer transport.CloseIdleConnections()
	h := Handler(f, echo, Options{Elsewhere: Forward, Transport: transport})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "stays")
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, version := range []string{"1.0", "1.1"} {
		answer := raw(t, server, "POST / HTTP/"+version+"\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody")
		resp, err := http.ReadResponse(answer, nil) // it would take a 100 for the response
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "stays", resp.Header.Get("X-Outer"))
		require.NoError(t, resp.Body.Close())
	}
}

// ending is a leadership that cancels its work when the test requests it.
type ending struct {
	*fake
	end chan struct{}
}

func (e ending) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-e.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { <-stopped }()
	defer cancel()
	return e.fake.AsLeader(ctx, fn)
}

// A client that sends no body does not keep the work from ending.
func TestBodyThatDoesNotCome(t *testing.T) {
	l := ending{newFake(leads()), make(chan struct{})}
	begun, ended := make(chan struct{}), make(chan error, 1)
	server := httptest.NewServer(Handler(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		_, err := io.ReadAll(r.Body)
		ended <- err
	}), Options{}))
	defer server.Close()
	raw(t, server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nb")
	<-begun
	close(l.end)
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the body is waited for")
	}
}

// The leader stands still, and another one leads. A client that waits for a forwarded response gets one long
// before ForwardTimeout. The former leader has a moment to respond.
func TestForwardedToALeaderThatStandsStill(t *testing.T) {
	t.Parallel()
	begun, thaw := make(chan bool, 2), make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		select {
		case <-thaw:
		case <-r.Context().Done():
		}
	}))
	defer leader.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	f := newFake(follows(leader.URL))
	h := Handler(f, echo, Options{Elsewhere: Forward, Transport: transport})
	answers := make(chan *httptest.ResponseRecorder, 1)
	forward := func() {
		go func() { answers <- call(h, http.MethodPost, "/") }()
		<-begun
	}
	forward()
	began := time.Now()
	time.AfterFunc(leaderCheckAfter/2, func() { f.become(Leader{}) }) // without a leader: it may lead again
	time.AfterFunc(leaderCheckAfter, func() { f.become(Leader{Name: "c:1", URL: there, Token: 9}) })
	w := <-answers
	require.Equal(t, http.StatusBadGateway, w.Code)
	require.Contains(t, w.Body.String(), "may have carried it out")
	require.GreaterOrEqual(t, time.Since(began), leaderCheckAfter+formerLeaderTimeout)
	require.Less(t, time.Since(began), 15*time.Second)

	f.become(follows(leader.URL))
	forward()
	f.become(Leader{Name: "c:1", URL: there, Token: 9})
	close(thaw)
	require.Equal(t, http.StatusOK, (<-answers).Code, "it was on its way")
}
