package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// arrival is how long the first request may take to come on a connection, when the server stops: one that a
// load balancer has just opened has it on the way, and would take a closed one for a request whose outcome
// is not known.
const arrival = 100 * time.Millisecond

// conns are the connections of a server, whose goroutines net/http does not wait for. On
// one that no request came yet on, its Shutdown waits for five seconds.
type conns struct {
	open sync.WaitGroup // grows only while the server accepts

	mu     sync.Mutex
	silent map[net.Conn]time.Time // no request came yet; since when
	shut   bool                   // no further connection is waited for
}

func newConns() *conns { return &conns{silent: map[net.Conn]time.Time{}} }

// changed is the server's ConnState hook. StateNew comes from the goroutine that accepts,
// the end from the connection's own, as the last that this does.
func (l *conns) changed(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew:
		l.open.Add(1)
		l.silent[c] = time.Now()
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

// await waits until a request has come on each connection, for so long at most, or until ctx ends.
func (l *conns) await(ctx context.Context, most time.Duration) {
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

func (l *conns) anySilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.silent) > 0
}

// shutSilent closes the connections that no request came on for so long; with 0 all of them, and those to
// come.
func (l *conns) shutSilent(since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = l.shut || since == 0
	for c, from := range l.silent {
		if time.Since(from) >= since {
			_ = c.Close()
		}
	}
}
