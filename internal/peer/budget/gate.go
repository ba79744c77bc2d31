package budget

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// ErrCrowded is returned if too many requests of the connection already wait at a Gate.
var ErrCrowded = errors.New("too many wait already")

// Gate limits the requests of one kind that a connection may have inside at a time, and those that may wait
// while few pass. All methods are safe for concurrent use.
type Gate struct {
	maxInside, maxWaiting int

	mu          sync.Mutex
	connections map[any]*connectionGate
}

// connectionGate holds the requests of one connection that has any inside.
type connectionGate struct {
	inside  int
	waiting []*gateWaiter // in order, including some that have given up
	head    int64         // the number of the request at the head of waiting
	left    int           // those in waiting that have given up
	passed  int64         // the number that have come out
}

// gateWaiter is a request that waits at a gate.
type gateWaiter struct {
	admitted chan struct{} // closed when it is admitted

	// The gate's lock protects the following fields.
	number              int64 // numbers follow the order in waiting
	entered, gone       bool
	seen                int64 // the gate's passed at the last check
	stillChecks, checks int   // checks since at least minPassed passed, and all checks
}

// Any number may wait while others pass quickly. Many small requests that begin together pass one after the
// other, which may take the process a while. If few have passed for two checks, or the wait lasts long, too many
// wait.
const (
	checkEvery     = 100 * time.Millisecond
	minPassed      = 32 // between two checks
	maxStillChecks = 2  // consecutive ones
	maxChecks      = 20 // in all
)

// NewGate returns a Gate. The argument most limits the requests of a connection that are inside, and mostWaiting
// those that may wait for long.
func NewGate(most, mostWaiting int) *Gate {
	return &Gate{maxInside: most, maxWaiting: mostWaiting, connections: map[any]*connectionGate{}}
}

// TryEnter admits a request of a connection if there is room. Leave must follow if it returns true.
func (g *Gate) TryEnter(connection any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enterLocked(connection)
}

// enterLocked admits a request of a connection if there is room. The caller holds the lock.
func (g *Gate) enterLocked(connection any) bool {
	d := g.connections[connection]
	if d == nil {
		d = &connectionGate{}
		g.connections[connection] = d
	}
	if d.inside >= g.maxInside {
		return false
	}
	d.inside++
	return true
}

// Enter blocks until a request of a connection is admitted; Leave must follow. It returns the error of ctx if
// that ends first, and ErrCrowded if the request has waited behind too many others.
func (g *Gate) Enter(ctx context.Context, connection any) error {
	g.mu.Lock()
	if g.enterLocked(connection) {
		g.mu.Unlock()
		return nil
	}
	d := g.connections[connection]
	w := &gateWaiter{number: d.head + int64(len(d.waiting)), admitted: make(chan struct{})}
	d.waiting = append(d.waiting, w)
	first := time.Duration(math.MaxInt64)
	if len(d.waiting)-d.left > g.maxWaiting {
		first, w.seen = checkEvery, d.passed
	}
	g.mu.Unlock()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-w.admitted:
			return nil
		case <-timer.C:
			if g.giveUpCrowded(d, w) {
				return ErrCrowded
			}
			timer.Reset(checkEvery)
		case <-ctx.Done():
			g.abandonWait(connection, d, w)
			return ctx.Err()
		}
	}
}

// giveUpCrowded ends the wait of a request that has waited behind too many for too long, and reports whether it did.
func (g *Gate) giveUpCrowded(d *connectionGate, w *gateWaiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.checks++
	if w.stillChecks++; d.passed-w.seen >= minPassed {
		w.stillChecks = 0
	}
	w.seen = d.passed
	if w.entered || w.number-d.head < int64(g.maxWaiting) || w.stillChecks < maxStillChecks && w.checks < maxChecks {
		return false
	}
	d.giveUp(w)
	return true
}

// abandonWait ends the wait of a request, and leaves the gate if the request was admitted meanwhile.
func (g *Gate) abandonWait(connection any, d *connectionGate, w *gateWaiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.entered {
		g.leaveLocked(connection)
		return
	}
	d.giveUp(w)
}

// giveUp ends the wait of a request. Once half of those in waiting have given up, it removes them all, so a client
// that opens and resets requests leaves nothing behind. The caller holds the lock.
func (d *connectionGate) giveUp(w *gateWaiter) {
	w.gone = true
	if d.left++; 2*d.left < len(d.waiting) {
		return
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(w *gateWaiter) bool { return w.gone })
	d.left = 0
	for i, w := range d.waiting {
		w.number = d.head + int64(i)
	}
}

// Leave ends a request of the connection, and admits the next one.
func (g *Gate) Leave(connection any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(connection)
}

// leaveLocked is Leave for callers that hold the lock.
func (g *Gate) leaveLocked(connection any) {
	d := g.connections[connection]
	d.passed++
	for len(d.waiting) > 0 {
		w := d.waiting[0]
		d.waiting[0], d.waiting = nil, d.waiting[1:]
		d.head++
		if !w.gone {
			w.entered = true
			close(w.admitted)
			return
		}
		d.left--
	}
	if d.inside--; d.inside == 0 {
		delete(g.connections, connection)
	}
}
