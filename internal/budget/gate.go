package budget

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrCrowded is returned if too many requests of the connection already wait at a Gate.
var ErrCrowded = errors.New("too many wait already")

// Gate limits the requests of one kind that a connection may have inside at a time, and those that may wait
// while few pass. All methods are safe for concurrent use.
type Gate struct {
	most, mostWaiting int

	mu    sync.Mutex
	doors map[any]*door
}

// door holds the requests of one connection that has any inside.
type door struct {
	inside  int
	waiting []*waiter // in order, including those that have given up
	begun   int64     // the number ever removed from the head of waiting
	left    int       // those in waiting that have given up
	passed  int64     // the number that have come out
}

// waiter is a request that waits at a door.
type waiter struct {
	number int64         // its position in the door's order
	turn   chan struct{} // closed when it is admitted

	// The gate's lock protects the following fields.
	entered, gone bool
	seen          int64 // the door's passed at the last look
	still, looks  int   // looks since at least few passed, and all looks
}

// Any number may wait while others pass quickly. Many small requests that begin together pass one after the
// other, which may take the process a while. If few have passed for two looks, or the wait lasts long, too many
// wait.
const (
	lookEvery = 100 * time.Millisecond
	few       = 32 // between two looks
	still     = 2  // in looks
	long      = 20 // in looks
)

// NewGate returns a Gate. The argument most limits the requests of a connection that are inside, and mostWaiting
// those that may wait for long.
func NewGate(most, mostWaiting int) *Gate {
	return &Gate{most: most, mostWaiting: mostWaiting, doors: map[any]*door{}}
}

// TryEnter admits a request of a connection if there is room. Leave must follow if it returns true.
func (g *Gate) TryEnter(connection any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enter(connection)
}

// enter admits a request of a connection if there is room. The caller holds the lock.
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

// Enter blocks until a request of a connection is admitted; Leave must follow. It returns the error of ctx if
// that ends first, and ErrCrowded if the request has waited behind too many others.
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

// giveUp ends the wait of a request that has waited behind too many for too long, and reports whether it did.
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

// abandon ends the wait of a request, and leaves the gate if the request was admitted meanwhile.
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

// Leave ends a request of the connection, and admits the next one.
func (g *Gate) Leave(connection any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(connection)
}

// leave is Leave for callers that hold the lock.
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
