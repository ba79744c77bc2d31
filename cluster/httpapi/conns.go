package httpapi

import (
	"net"
	"net/http"
	"sync"
)

// conns are the connections of a server, whose goroutines net/http does not wait for. On
// one that no request came yet on, its Shutdown waits for five seconds.
type conns struct {
	open sync.WaitGroup // grows only while the server accepts

	mu     sync.Mutex
	silent map[net.Conn]struct{} // no request came yet
	shut   bool                  // no further connection is taken
}

func newConns() *conns { return &conns{silent: map[net.Conn]struct{}{}} }

// changed is the server's ConnState hook. StateNew comes from the goroutine that accepts,
// the end from the connection's own, as the last that this does.
func (l *conns) changed(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew:
		l.open.Add(1)
		l.silent[c] = struct{}{}
		if l.shut { // Shutdown and Close may have dealt with all that they knew of
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(l.silent, c)
		l.open.Done()
	default:
		delete(l.silent, c)
	}
}

// shutSilent closes the connections that no request came on, and those to come.
func (l *conns) shutSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
	for c := range l.silent {
		_ = c.Close()
	}
}
