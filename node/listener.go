package node

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conns is a listener that keeps track of its open connections. Both the graceful and the hard stop of grpc
// wait for connections with a handshake (TLS, then HTTP/2's preface and settings) in progress. Without conns, a
// connection that is silent, or stalls during the handshake, would delay a stop by two minutes.
type conns struct {
	net.Listener
	mu   sync.Mutex
	open map[*conn]struct{}
	shut bool            // further connections are closed
	left map[string]bool // remote addresses of watchers that received a goodbye
}

type conn struct {
	net.Conn
	owner   *conns
	greeted atomic.Bool // the handshake is done
}

func newConns(l net.Listener) *conns {
	return &conns{Listener: l, open: map[*conn]struct{}{}, left: map[string]bool{}}
}

// Accept waits for the next connection.
func (l *conns) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, owner: l}
	l.mu.Lock()
	l.open[c] = struct{}{}
	shut := l.shut
	l.mu.Unlock()
	if shut {
		_ = c.Close() // grpc notices on its first read
	}
	return c, nil
}

// leaving records that a watcher's connection is no longer needed.
func (l *conns) leaving(remote net.Addr) {
	l.mu.Lock()
	l.left[remote.String()] = true
	l.mu.Unlock()
}

// closeLeft closes the connections of watchers that received a goodbye.
func (l *conns) closeLeft() {
	l.mu.Lock()
	var victims []*conn
	for c := range l.open {
		if l.left[c.RemoteAddr().String()] {
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
func (l *conns) closeConns(all bool) {
	l.mu.Lock()
	l.shut = true
	var victims []*conn
	for c := range l.open {
		if all || !c.greeted.Load() {
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
func (c *conn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.greeted.Store(true)
	}
	return c.Conn.SetDeadline(t)
}

// Close closes the connection and removes it from the listener.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
