package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// client keeps no connection, which would outlive the test.
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
	l, err := net.Listen("tcp", s.Address())
	require.NoError(t, err, "the port must be free")
	require.NoError(t, l.Close())
}

func TestStopCutsRunningRequests(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	s := Serve(listen(t), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
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
	<-left
	require.Error(t, <-answered)
}

func TestServerTellsWhyItEnded(t *testing.T) {
	t.Parallel()
	l := listen(t)
	s := Serve(l, New(leader(), Options{}), nil)
	require.NoError(t, s.Err())
	require.NoError(t, l.Close()) // behind its back
	<-s.Done()
	require.ErrorIs(t, s.Err(), net.ErrClosed)
	require.NoError(t, s.Stop(context.Background()))
}
