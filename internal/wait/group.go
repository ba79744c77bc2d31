package wait

import (
	"context"
	"sync"
)

// Group holds goroutines that end together. All methods are safe for concurrent use. Make one with [NewGroup].
type Group struct {
	ctx context.Context
	end context.CancelCauseFunc
	wg  sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// NewGroup returns a group without goroutines.
func NewGroup() *Group {
	g := &Group{}
	g.ctx, g.end = context.WithCancelCause(context.Background())
	return g
}

// Context returns the context that Close ends.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs f in a goroutine that Close waits for. f must return when its context ends. Go reports false, and does not
// run f, once Close was called.
func (g *Group) Go(f func(ctx context.Context)) bool {
	left, ok := g.Join()
	if ok {
		go func() {
			defer left()
			f(g.ctx)
		}()
	}
	return ok
}

// Join makes Close wait for the caller until it calls left. The caller must do so soon after Context has ended. ok is
// false once Close was called.
func (g *Group) Join() (left func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.wg.Add(1)
	return g.wg.Done, true
}

// Close ends Context with the given cause, and blocks until all that have joined have left. Only the first cause
// counts.
func (g *Group) Close(cause error) {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.end(cause)
	g.wg.Wait()
}
