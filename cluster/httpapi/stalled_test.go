package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// pipes is a listener for unbuffered connections within the process: a client that does not read accepts no byte.
type pipes struct {
	conns chan net.Conn
	done  context.Context
	close context.CancelFunc
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn)}
	p.done, p.close = context.WithCancel(context.Background())
	return p
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { p.close(); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// hasty is the server's side of a connection on which a second of a write deadline lasts a twentieth of one.
type hasty struct{ net.Conn }

// SetWriteDeadline implements net.Conn.
func (c hasty) SetWriteDeadline(at time.Time) error {
	if left := time.Until(at); left > 0 {
		at = time.Now().Add(left / 20)
	}
	return c.Conn.SetWriteDeadline(at)
}

// send sends a request over a connection of its own.
func (p *pipes) send(t *testing.T, path string, with func(net.Conn) net.Conn) net.Conn {
	t.Helper()
	own, other := net.Pipe()
	p.conns <- with(other)
	_, err := io.WriteString(own, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	return own
}

func plain(conn net.Conn) net.Conn { return conn }

// get returns the status code of the response to a request.
func (p *pipes) get(t *testing.T, path string) int {
	t.Helper()
	conn := p.send(t, path, plain)
	defer func() { require.NoError(t, conn.Close()) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	return resp.StatusCode // the rest is not read: the connection is closed
}

// A stream's client that does not read blocks no other, is cut off, and does not delay a stop of the server.
func TestAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const path = "/cluster/stream?page=/cluster/processors"
	stalled := func(with func(net.Conn) net.Conn) (p *pipes, s *Server, client net.Conn) {
		var made atomic.Int64 // pages
		p = newPipes()
		s = Serve(p, New(leader(), Options{MaxStreams: 1, Processors: func() []processor.Status {
			made.Add(1)
			return nil
		}}), nil)
		client = p.send(t, path, with)
		require.Eventually(t, func() bool { return made.Load() == 1 }, time.Minute, time.Millisecond)
		return p, s, client
	}
	p, s, client := stalled(func(conn net.Conn) net.Conn { return hasty{conn} })
	require.Equal(t, http.StatusServiceUnavailable, p.get(t, path), "it has the only place")
	require.Equal(t, http.StatusOK, p.get(t, "/cluster/status"))
	require.Eventually(t, func() bool { return p.get(t, path) == http.StatusOK }, time.Minute, 20*time.Millisecond,
		"its place becomes free")
	_, err := io.ReadAll(client)
	require.NoError(t, err, "its connection is closed")
	require.NoError(t, s.Stop(t.Context()))

	_, s, client = stalled(plain)
	began := time.Now()
	require.NoError(t, s.Stop(t.Context()))
	require.Less(t, time.Since(began), sendTimeout/2)
	require.NoError(t, client.Close())
}
