package peer

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connListener is a listener that keeps track of its open connections. Both the graceful and the hard stop of grpc
// wait for connections with a handshake (TLS, then HTTP/2's preface and settings) in progress. Without connListener, a
// connection that is silent, or stalls during the handshake, would delay a stop by two minutes.
type connListener struct {
	net.Listener
	mu       sync.Mutex
	open     map[*trackedConn]struct{}
	closed   bool            // further connections are closed
	departed map[string]bool // remote addresses of watchers that received a goodbye
}

type trackedConn struct {
	net.Conn
	owner         *connListener
	handshakeDone atomic.Bool // the handshake is done
}

func newConnListener(l net.Listener) *connListener {
	return &connListener{Listener: l, open: map[*trackedConn]struct{}{}, departed: map[string]bool{}}
}

// Accept waits for the next connection.
func (l *connListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &trackedConn{Conn: raw, owner: l}
	l.mu.Lock()
	l.open[c] = struct{}{}
	shut := l.closed
	l.mu.Unlock()
	if shut {
		_ = c.Close() // grpc notices on its first read
	}
	return c, nil
}

// markDeparted records that a watcher's connection is no longer needed.
func (l *connListener) markDeparted(remote net.Addr) {
	l.mu.Lock()
	l.departed[remote.String()] = true
	l.mu.Unlock()
}

// closeDeparted closes the connections of watchers that received a goodbye.
func (l *connListener) closeDeparted() {
	l.mu.Lock()
	var victims []*trackedConn
	for c := range l.open {
		if l.departed[c.RemoteAddr().String()] {
			victims = append(victims, c)
		}
	}
	l.mu.Unlock()
	for _, c := range victims {
		_ = c.Close()
	}
}

// closeConns closes the connections with an unfinished handshake, on which no call can run yet. With all it
// closes every connection.
func (l *connListener) closeConns(all bool) {
	l.mu.Lock()
	l.closed = true
	var victims []*trackedConn
	for c := range l.open {
		if all || !c.handshakeDone.Load() {
			victims = append(victims, c)
		}
	}
	l.mu.Unlock()
	for _, c := range victims {
		_ = c.Close()
	}
}

// SetDeadline detects the end of the handshake: grpc sets a deadline before it and clears the deadline after
// it.
func (c *trackedConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.handshakeDone.Store(true)
	}
	return c.Conn.SetDeadline(t)
}

// Close closes the connection and removes it from the listener.
func (c *trackedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
