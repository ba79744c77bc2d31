package node

import (
	"net"
	"sync"
	"sync/atomic"
)

// conns is a listener that remembers its open connections. grpc waits, in its
// graceful and its hard stop alike, for connections that have not said anything
// yet: without this, one silent TCP connection delays a stop by two minutes.
type conns struct {
	net.Listener
	mu   sync.Mutex
	open map[*conn]struct{}
	shut bool            // no silent connection is taken any more
	left map[string]bool // remote addresses of watchers who were told goodbye
}

// conn is one accepted connection.
type conn struct {
	net.Conn
	owner *conns
	spoke atomic.Bool
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

// closeLeft closes the connections of watchers who were told goodbye.
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

// closeConns closes the connections that never spoke, or all of them.
func (l *conns) closeConns(all bool) {
	l.mu.Lock()
	l.shut = true
	var victims []*conn
	for c := range l.open {
		if all || !c.spoke.Load() {
			victims = append(victims, c)
		}
	}
	l.mu.Unlock()
	for _, c := range victims {
		_ = c.Close()
	}
}

// Read remembers that the other side has spoken.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.spoke.Store(true)
	}
	return n, err
}

// Close closes the connection and forgets it.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
