package budget

import (
	"context"
	"sync"
)

// Gate bounds how much of one kind a connection may do at a time. All methods are safe for concurrent use.
type Gate struct {
	most int

	mu    sync.Mutex
	doors map[any]*door
}

// door is that of a connection through which somebody has gone.
type door struct {
	inside  int
	waiting []chan struct{} // in order; each is closed when it is let in
}

// NewGate is one that lets in so many of a connection.
func NewGate(most int) *Gate { return &Gate{most: most, doors: map[any]*door{}} }

// TryEnter lets in one of a connection, if there is room.
func (g *Gate) TryEnter(connection any) bool { return g.enter(connection, false) == nil }

// full is what enter returns where nobody is to wait.
var full = make(chan struct{})

// enter lets in one at once, which is nil, or says what is closed when it is let in.
func (g *Gate) enter(connection any, wait bool) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[connection]
	if d == nil {
		d = &door{}
		g.doors[connection] = d
	}
	if d.inside < g.most {
		d.inside++
		return nil
	}
	if !wait {
		return full
	}
	turn := make(chan struct{})
	d.waiting = append(d.waiting, turn)
	return turn
}

// Enter waits until one of a connection is let in, or ctx ends, and returns its error. Leave is to be called after nil.
func (g *Gate) Enter(ctx context.Context, connection any) error {
	turn := g.enter(connection, true)
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	d := g.doors[connection]
	for i, w := range d.waiting {
		if w == turn {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			g.mu.Unlock()
			return ctx.Err()
		}
	}
	g.mu.Unlock()
	g.Leave(connection) // it was let in meanwhile
	return ctx.Err()
}

// Leave makes room for another one of the connection.
func (g *Gate) Leave(connection any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[connection]
	if len(d.waiting) > 0 {
		close(d.waiting[0])
		d.waiting = d.waiting[1:]
		return
	}
	if d.inside--; d.inside == 0 {
		delete(g.doors, connection)
	}
}
