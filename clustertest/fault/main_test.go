package fault

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	// patience limits the waits for events that must happen; only a failure takes so long.
	patience = time.Minute
	// silence is the time for which nothing may arrive. The data has passed the relay's receiver before, so
	// only the fault holds it back.
	silence = 100 * time.Millisecond
)

// patient returns a context that ends only if a test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// noLeaks fails the test when it ends, for every goroutine that it left.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// host is a relay's target. It passes on the connections that it accepts.
type host struct {
	address  string
	accepted chan *net.TCPConn
}

func newHost(t *testing.T) *host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &host{address: l.Addr().String(), accepted: make(chan *net.TCPConn, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.accepted <- conn.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for len(h.accepted) > 0 {
			_ = (<-h.accepted).Close()
		}
	})
	return h
}

// relayed returns a relay and its target. The test fails if goroutines of them are left.
func relayed(t *testing.T) (*Relay, *host) {
	t.Helper()
	noLeaks(t)
	h := newHost(t)
	r, err := NewRelay(h.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r, h
}

// connect connects to an address.
func connect(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return conn.(*net.TCPConn)
}

// accept returns the next connection that arrives at the host.
func (h *host) accept(t *testing.T) *net.TCPConn {
	t.Helper()
	select {
	case conn := <-h.accepted:
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
		return conn
	case <-patient(t).Done():
		require.Fail(t, "no connection arrives")
		return nil
	}
}

// pair returns both ends of a connection through the relay that has carried a byte from the target.
func pair(t *testing.T, r *Relay, h *host) (client, target *net.TCPConn) {
	t.Helper()
	client = connect(t, r.Address())
	target = h.accept(t)
	send(t, target, "!")
	hears(t, client, "!")
	return client, target
}

func send(t *testing.T, c *net.TCPConn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
}

// hears fails the test unless exactly this text arrives next.
func hears(t *testing.T, c *net.TCPConn, text string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, len(text))
	_, err := io.ReadFull(c, buf)
	require.NoError(t, err)
	require.Equal(t, text, string(buf))
}

// ends returns the end of a connection on which nothing more arrives.
func ends(t *testing.T, c *net.TCPConn) error {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	n, err := c.Read(make([]byte, 100))
	require.Zero(t, n)
	require.Error(t, err)
	return err
}

// quiet fails the test if anything arrives: a byte, an end, a reset.
func quiet(t *testing.T, c *net.TCPConn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(silence)))
	n, err := c.Read(make([]byte, 100))
	require.Zero(t, n)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// holds waits until the relay holds back that many received bytes.
func holds(t *testing.T, r *Relay, d Direction, bytes int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		seen := r.Traffic(d)
		return seen.Received-seen.Delivered == bytes
	}, patience, time.Millisecond)
}
