package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/porttest"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// client returns a client that keeps no connection, which would outlive the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
}

func TestServeAndStop(t *testing.T) {
	t.Parallel()
	s := Serve(listen(t), New(leader(), Options{}), nil)
	resp, err := client(t).Get("http://" + s.Address() + "/cluster/status")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	require.NoError(t, s.Stop(context.Background()))
	require.NoError(t, s.Stop(context.Background()), "again is fine")
	<-s.Done()
	require.NoError(t, s.Err())
	porttest.RequireFree(t, s.Address())
}

func TestStopCutsRunningRequests(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	s := Serve(listen(t), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		<-time.After(100 * time.Millisecond) // it has to clean up
		close(left)
	}), nil)
	answered := make(chan error, 1)
	go func() {
		resp, err := client(t).Get("http://" + s.Address())
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Stop(ctx), context.Canceled)
	select {
	case <-left:
	default:
		t.Error("Stop returned before the handler did")
		<-left
	}
	require.Error(t, <-answered)
}

// Connections without a request, with half a request, or waiting for the next one do not delay a stop.
func TestConnectionsWithoutARequestDoNotDelayStop(t *testing.T) {
	for name, says := range map[string]string{"silent": "", "half a request": "GET /livez HTTP/1.1\r\n",
		"idle": "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			l := &accepting{Listener: listen(t), accepted: make(chan struct{}, 20)}
			s := Serve(l, New(leader(), Options{}), nil)
			for range 20 {
				c, err := net.Dial("tcp", s.Address())
				require.NoError(t, err)
				defer func() { _ = c.Close() }()
				_, err = io.WriteString(c, says)
				require.NoError(t, err)
				if <-l.accepted; name == "idle" {
					_, err = c.Read(make([]byte, 1))
					require.NoError(t, err)
				}
			}
			meter := pace.StartMeter(t)
			began := time.Now()
			require.NoError(t, s.Stop(context.Background()))
			require.Less(t, time.Since(began), meter.Scale(3*time.Second))
		})
	}
}

// accepting is a listener that signals when it has accepted.
type accepting struct {
	net.Listener
	accepted chan struct{}
}

func (l *accepting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- struct{}{}
	}
	return c, err
}

func TestServerTellsWhyItEnded(t *testing.T) {
	t.Parallel()
	l := listen(t)
	s := Serve(l, New(leader(), Options{}), nil)
	require.NoError(t, s.Err())
	require.NoError(t, l.Close()) // closed without the server's knowledge
	<-s.Done()
	require.ErrorIs(t, s.Err(), net.ErrClosed)
	require.NoError(t, s.Stop(context.Background()))
}

// A load balancer opens a connection just when the server is stopped. Its request is answered, and the port is
// closed.
func TestStopWaitsForWhatWasJustOpened(t *testing.T) {
	t.Parallel()
	s := Serve(listen(t), New(leader(), Options{}), nil)
	s.firstRequestWait = time.Minute
	conn, err := net.Dial("tcp", s.Address())
	require.NoError(t, err)
	defer conn.Close()
	known := func() bool { s.conns.mu.Lock(); defer s.conns.mu.Unlock(); return len(s.conns.silent) == 1 }
	require.Eventually(t, known, time.Minute, time.Millisecond)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	<-s.Done() // it no longer accepts
	_, err = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "200 OK")
	require.NoError(t, <-stopped)
}
