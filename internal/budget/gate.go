package budget

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrCrowded: as many of the connection wait before a Gate as may.
var ErrCrowded = errors.New("too many wait already")

// Gate bounds how much of one kind a connection may do at a time, and how much may wait for that while little comes
// out. All methods are safe for concurrent use.
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
	passed  int64     // how many have come out
}

// waiter is one that waits before a door.
type waiter struct {
	number int64         // of its door's
	turn   chan struct{} // closed when it is let in

	// With the gate's lock:
	entered, gone bool
	seen          int64 // how many had passed at the last look
	still, looks  int   // looks since many had passed, and all
}

// Any number may wait while others pass quickly: many small requests that begin together pass one after the other, and
// that may take the process a while. Where few have passed for two looks, or all has taken long, they are too many.
const (
	lookEvery = 100 * time.Millisecond
	few       = 32 // fewer than so many between two looks
	still     = 2  // looks
	long      = 20 // looks
)

// NewGate is one that lets in so many of a connection, and has so many wait for long.
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
// many wait before it. Leave is to be called after nil.
func (g *Gate) Enter(ctx context.Context, connection any) error {
	g.mu.Lock()
	if g.enter(connection) {
		g.mu.Unlock()
		return nil
	}
	d := g.doors[connection]
	w := &waiter{number: d.begun + int64(len(d.waiting)), turn: make(chan struct{})}
	d.waiting = append(d.waiting, w)
	first := time.Duration(math.MaxInt64)
	if len(d.waiting)-d.left > g.mostWaiting {
		first, w.seen = lookEvery, d.passed
	}
	g.mu.Unlock()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-w.turn:
			return nil
		case <-timer.C:
			if g.giveUp(d, w) {
				return ErrCrowded
			}
			timer.Reset(lookEvery)
		case <-ctx.Done():
			g.abandon(connection, d, w)
			return ctx.Err()
		}
	}
}

// giveUp has one wait no longer that has waited behind too many for too long, and reports whether that is so.
func (g *Gate) giveUp(d *door, w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.looks++
	if w.still++; d.passed-w.seen >= few {
		w.still = 0
	}
	w.seen = d.passed
	if w.entered || w.number-d.begun < int64(g.mostWaiting) || w.still < still && w.looks < long {
		return false
	}
	w.gone = true
	d.left++
	return true
}

// abandon has one wait no longer.
func (g *Gate) abandon(connection any, d *door, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.entered {
		g.leave(connection)
		return
	}
	w.gone = true
	d.left++
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
	d.passed++
	for len(d.waiting) > 0 {
		w := d.waiting[0]
		d.waiting[0], d.waiting = nil, d.waiting[1:]
		d.begun++
		if !w.gone {
			w.entered = true
			close(w.turn)
			return
		}
		d.left--
	}
	if d.inside--; d.inside == 0 {
		delete(g.doors, connection)
	}
}
