package budget

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrCrowded: as many of the connection wait before a Gate as may.
var ErrCrowded = errors.New("too many wait already")

// Gate bounds how much of one kind a connection may do at a time, and how much may wait for that for longer than a
// moment. All methods are safe for concurrent use.
type Gate struct {
	most, mostWaiting int

	mu    sync.Mutex
	doors map[any]*door
}

// door is that of a connection through which somebody has gone.
type door struct {
	inside  int
	waiting []*waiter // in order, also those that have left
	begun   int64     // how many have ever left the head of it
	left    int       // how many of them are not there any more
}

// waiter is one that waits before a door.
type waiter struct {
	number int64         // of its door's
	turn   chan struct{} // closed when it is let in
	gone   bool
}

// moment is how long any number may wait: many small requests that begin together are there together, too.
const moment = 200 * time.Millisecond

// NewGate is one that lets in so many of a connection, and has so many wait for longer than a moment.
func NewGate(most, mostWaiting int) *Gate {
	return &Gate{most: most, mostWaiting: mostWaiting, doors: map[any]*door{}}
}

// TryEnter lets in one of a connection, if there is room.
func (g *Gate) TryEnter(connection any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enter(connection)
}

// enter lets in one of a connection, if there is room. The lock is held.
func (g *Gate) enter(connection any) bool {
	d := g.doors[connection]
	if d == nil {
		d = &door{}
		g.doors[connection] = d
	}
	if d.inside >= g.most {
		return false
	}
	d.inside++
	return true
}

// Enter waits until one of a connection is let in, or ctx ends, and returns its error; it returns ErrCrowded where too
// many have waited before it for a moment. Leave is to be called after nil.
func (g *Gate) Enter(ctx context.Context, connection any) error {
	g.mu.Lock()
	if g.enter(connection) {
		g.mu.Unlock()
		return nil
	}
	d := g.doors[connection]
	w := &waiter{number: d.begun + int64(len(d.waiting)), turn: make(chan struct{})}
	d.waiting = append(d.waiting, w)
	var crowded <-chan time.Time
	if len(d.waiting)-d.left > g.mostWaiting {
		timer := time.NewTimer(moment)
		defer timer.Stop()
		crowded = timer.C
	}
	g.mu.Unlock()
	for {
		select {
		case <-w.turn:
			return nil
		case <-crowded:
			if g.leaveQueue(connection, d, w, g.mostWaiting) {
				return ErrCrowded
			}
			crowded = nil
		case <-ctx.Done():
			g.leaveQueue(connection, d, w, 0)
			return ctx.Err()
		}
	}
}

// leaveQueue has one wait no longer that has so many before it, and reports whether it does not.
func (g *Gate) leaveQueue(connection any, d *door, w *waiter, before int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.turn:
		if before > 0 {
			return false
		}
		g.leave(connection) // it was let in meanwhile
		return true
	default:
	}
	if w.number-d.begun < int64(before) {
		return false
	}
	w.gone = true
	d.left++
	return true
}

// Leave makes room for another one of the connection.
func (g *Gate) Leave(connection any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(connection)
}

// leave is Leave with the lock.
func (g *Gate) leave(connection any) {
	d := g.doors[connection]
	for len(d.waiting) > 0 {
		w := d.waiting[0]
		d.waiting[0], d.waiting = nil, d.waiting[1:]
		d.begun++
		if !w.gone {
			close(w.turn)
			return
		}
		d.left--
	}
	if d.inside--; d.inside == 0 {
		delete(g.doors, connection)
	}
}
