package node

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conns is a listener that remembers its open connections. grpc waits, in its
// graceful and its hard stop alike, for connections whose handshake is under way
// (TLS, then HTTP/2's preface and settings): without this, one that stays silent, or
// stops in the middle of it, delays a stop by two minutes.
type conns struct {
	net.Listener
	mu   sync.Mutex
	open map[*conn]struct{}
	shut bool            // no further connection is taken
	left map[string]bool // remote addresses of watchers that received a goodbye
}

// conn is one accepted connection.
type conn struct {
	net.Conn
	owner   *conns
	greeted atomic.Bool // its handshake is done
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

// leaving notes that a watcher's connection has served its purpose.
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

// closeConns closes the connections whose handshake is not done, on which no call can run
// yet, or all of them.
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

// SetDeadline is called by grpc with a deadline before the handshake, and with none as soon
// as that is done.
func (c *conn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.greeted.Store(true)
	}
	return c.Conn.SetDeadline(t)
}

// Close closes the connection and forgets it.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
