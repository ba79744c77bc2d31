package host

import (
	"slices"
	"time"
)

// turn is the turn of a call or a tick in its object. It waits in the object's queue, or runs, or has ended.
type turn struct {
	method     *Method
	chain      []uint64 // the turns that wait for this one
	generation int64    // of the map by which it came to this node
	owner      resolver

	home       *shard
	object     *object // replaced if the awaited activation ends before the turn begins
	id         uint64  // set when it begins
	exclusive  bool    // it has the object to itself
	queued     bool
	since      time.Time // the time when it was queued
	beside     bool      // while queued: it does not need the object to itself
	prev, next *turn
}

// resolver receives the outcome of a queued turn: nil when the turn has begun, otherwise an error. resolveTurn is
// called once, under the shard's lock, and must not block.
type resolver interface{ resolveTurn(err error) }

// turnQueue schedules the turns of one object. One turn at a time has the object to itself. Turns of concurrent
// methods run beside it, and so do turns of reentrant methods for which it waits. Turns that cannot begin wait in the
// order of arrival. It is a plain value without lock, clock or effects; its owner holds a lock.
type turnQueue struct {
	exclusive    uint64 // the id of the turn that has the object to itself; 0 if none
	first, last  *turn
	beside       int32 // the number of turns that run beside the exclusive one
	queued       int32
	queuedBeside int32 // queued turns that do not need the object to themselves
	queuedChains int32 // queued turns that other turns wait for
}

// isRunning reports whether a turn runs.
func (q *turnQueue) isRunning() bool { return q.exclusive != 0 || q.beside > 0 }

// waitsFor reports whether the turn that has the object to itself waits for t.
func (q *turnQueue) waitsFor(t *turn) bool {
	return q.exclusive != 0 && slices.Contains(t.chain, q.exclusive)
}

// needsExclusive reports whether a turn needs the object to itself.
func (q *turnQueue) needsExclusive(t *turn) bool {
	return !t.method.concurrent && !(t.method.reentrant && q.waitsFor(t))
}

// mayBegin reports whether a turn may begin now. If the object is to be dropped, only a turn may begin for which a
// running one may wait.
func (q *turnQueue) mayBegin(t *turn, dropping bool) bool {
	if q.needsExclusive(t) {
		return q.exclusive == 0 && !dropping
	}
	return !dropping || len(t.chain) > 0 && q.isRunning()
}

// isBlocked reports whether no queued turn can begin before a running one ends.
func (q *turnQueue) isBlocked() bool { return q.exclusive != 0 && q.queuedBeside == 0 }

// beginTurn begins a turn that may begin and is not queued.
func (q *turnQueue) beginTurn(t *turn, id uint64) {
	t.id, t.exclusive = id, q.needsExclusive(t)
	if t.exclusive {
		q.exclusive = id
	} else {
		q.beside++
	}
}

// endTurn ends a turn that has begun.
func (q *turnQueue) endTurn(t *turn) {
	if t.exclusive {
		q.exclusive = 0
	} else {
		q.beside--
	}
}

// pushTurn queues a turn.
func (q *turnQueue) pushTurn(t *turn) {
	t.queued, t.prev = true, q.last
	if q.last == nil {
		q.first = t
	} else {
		q.last.next = t
	}
	q.last = t
	t.beside = !q.needsExclusive(t)
	q.countTurn(t, 1)
}

// removeTurn removes a turn from the queue.
func (q *turnQueue) removeTurn(t *turn) {
	if t.prev == nil {
		q.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next, t.queued = nil, nil, false
	q.countTurn(t, -1)
}

func (q *turnQueue) countTurn(t *turn, n int32) {
	q.queued += n
	if t.beside {
		q.queuedBeside += n
	}
	if len(t.chain) > 0 {
		q.queuedChains += n
	}
}
