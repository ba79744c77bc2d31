package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// firstRequestWait is the time that a connection has for its first request when the server stops. A load balancer that
// has just opened the connection may have sent the request, and would treat a closed connection as an unknown
// outcome.
const firstRequestWait = 100 * time.Millisecond

// connTracker tracks a server's connections, because net/http does not wait for their goroutines, and its Shutdown
// waits five seconds for a connection without a request.
type connTracker struct {
	open sync.WaitGroup // grows only while the server accepts

	mu     sync.Mutex
	silent map[net.Conn]time.Time // connections without a request yet, and when they were opened
	closed bool                   // further connections are closed at once
}

func newConnTracker() *connTracker { return &connTracker{silent: map[net.Conn]time.Time{}} }

// onStateChange is the server's ConnState hook. StateNew comes from the accepting goroutine; the final states come from
// the connection's own goroutine, as its last action.
func (l *connTracker) onStateChange(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew:
		l.open.Add(1)
		l.silent[c] = time.Now()
		if l.closed { // Shutdown and Close may have run before and missed it
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(l.silent, c)
		l.open.Done()
	default:
		delete(l.silent, c)
	}
}

// awaitFirstRequests waits until each connection has had a request, at most for the given time, or until ctx ends.
func (l *connTracker) awaitFirstRequests(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for l.anySilent() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (l *connTracker) anySilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.silent) > 0
}

// closeSilent closes the connections that have been without a request for the given time; with 0, all of them, and
// those still to come.
func (l *connTracker) closeSilent(since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.closed || since == 0
	for c, from := range l.silent {
		if time.Since(from) >= since {
			_ = c.Close()
		}
	}
}
