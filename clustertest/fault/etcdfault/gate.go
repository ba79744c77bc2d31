package etcdfault

import (
	"context"
	"sync"
)

// gate blocks its callers while it is shut.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open; closed when the gate opens again
}

func newGate() *gate { return &gate{} }

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed != nil
}

// waitOpen blocks until the gate is open, ctx ends or the node is killed.
func (g *gate) waitOpen(ctx context.Context, dead <-chan struct{}) error {
	for {
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		select {
		case <-dead:
			return errKilled
		default:
		}
		if closed == nil {
			return nil
		}
		select {
		case <-closed:
		case <-ctx.Done():
			return ctx.Err()
		case <-dead:
			return errKilled
		}
	}
}
