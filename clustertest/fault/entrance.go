package fault

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/wait"
)

// acceptPause is the pause between two attempts to accept after an error, such as a lack of file descriptors.
const acceptPause = 10 * time.Millisecond

// entrance is one period during which a relay's port listens, with all connections accepted in it.
type entrance struct {
	relay    *Relay
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	accepted chan struct{} // closed when acceptAll has returned
	wg       sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
}

// newEntrance accepts connections from a listener until close.
func newEntrance(r *Relay, l net.Listener) *entrance {
	e := &entrance{relay: r, listener: l, accepted: make(chan struct{}), links: map[*link]struct{}{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.acceptAll()
	return e
}

func (e *entrance) acceptAll() {
	defer close(e.accepted)
	for {
		conn, err := e.listener.Accept()
		switch {
		case err == nil:
			e.runLink(conn.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			if !wait.For(e.ctx, acceptPause) {
				return
			}
		}
	}
}

// runLink runs a client's connection.
func (e *entrance) runLink(client *net.TCPConn) {
	l := newLink(e.ctx, e.relay, client)
	e.mu.Lock()
	e.links[l] = struct{}{}
	e.mu.Unlock()
	e.wg.Go(func() {
		l.run()
		e.mu.Lock()
		delete(e.links, l)
		e.mu.Unlock()
	})
}

// eachLink calls f for every connection.
func (e *entrance) eachLink(f func(*link)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := range e.links {
		f(l)
	}
}

func (e *entrance) countLinks() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.links)
}

// close stops listening, closes every connection, and waits for all goroutines.
func (e *entrance) close() {
	_ = e.listener.Close() // nothing can be done about an error
	e.cancel()
	<-e.accepted
	e.eachLink((*link).close)
	e.wg.Wait()
}
