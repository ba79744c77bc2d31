package host

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
)

// errMoved is returned for a call that was not started because its shard is not this node's.
var errMoved = errors.New("the shard of the object is not this node's")

// IsMoved reports whether a call was not started because its shard is elsewhere.
func IsMoved(err error) bool { return errors.Is(err, errMoved) }

// MaxChain limits the turns that may wait for one another.
const MaxChain = 64

// resolver receives the outcome of a waiter that was queued: nil when it has its turn, otherwise an error. resolve is
// called once, under the shard's lock, and must not block.
type resolver interface{ resolve(err error) }

// waiter is a call or a tick that waits for its turn, or has it.
type waiter struct {
	method     *Method
	chain      []uint64 // the turns that wait for this one
	generation int64    // of the map by which it came to this node
	owner      resolver

	home       *shard
	object     *object // replaced if the awaited activation ends before the turn
	turn       uint64  // its own turn, once it has one
	exclusive  bool    // it has the object to itself
	queued     bool
	since      time.Time // the time when it was queued
	beside     bool      // while queued: it does not need the object to itself
	prev, next *waiter
}

// requestTurn grants w its turn at once, or queues it, or returns an error.
func (h *Host) requestTurn(w *waiter, n int, key string) (granted bool, err error) {
	defer func() {
		if err != nil {
			w.method.countRefused(err)
		}
	}()
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.getObject(h, w.method.service, key)
	w.home, w.object = s, o
	if len(w.chain) > 0 {
		if err := o.checkCycle(w); err != nil {
			h.forgetEmpty(o)
			return false, err
		}
	}
	if (o.first == nil || !o.needsTurn(w)) && h.grantTurn(o, w) {
		return true, nil
	}
	ends := AwaitedByDeactivated(w.chain)
	switch {
	case ends && h.waitsForLeave(o, w):
		err = errLeaving(o)
	case s.elsewhereGeneration > 0 && w.generation <= s.elsewhereGeneration && !h.mayEnterLeaving(s, w.chain):
		err = errMoved
	case o.hung:
		err = errHung(o)
	case int(o.queued) >= orDefault(o.service.maxQueue, h.cfg.MaxQueue):
		err = objects.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: "+o.displayName()+
			": too many calls wait for this object: call it less often, or raise its MaxQueue")
	case h.waiting.Load() >= int64(h.cfg.MaxWaiting):
		err = objects.Error(codes.ResourceExhausted, objects.ReasonQueueFull,
			"objects: too many calls wait for objects of this node")
	}
	if err != nil {
		h.forgetEmpty(o)
		return false, err
	}
	w.since = time.Now()
	h.enqueue(o, w)
	if ends {
		h.expireQueued(s, objectID{o.service, key})
	}
	if s.leaving {
		h.awaitShard(s)
	}
	h.advanceObject(o)
	return false, nil
}

// checkCycle returns an error if the call comes back to an object in which a turn waits for it, or if its chain is
// too long.
func (o *object) checkCycle(w *waiter) error {
	switch {
	case len(w.chain) >= MaxChain:
		return objects.Error(codes.FailedPrecondition, objects.ReasonCycle,
			"objects: "+o.displayName()+": too many objects wait for one another in this chain of calls")
	case o.turn == 0 || !slices.Contains(w.chain, o.turn) || !o.needsTurn(w) && o.phase == phaseActive:
		return nil
	}
	if o.phase == phaseDeactivating {
		return objects.Error(codes.FailedPrecondition, objects.ReasonCycle, "objects: "+o.displayName()+
			": the call comes back to an object whose Deactivated waits for it: do there what is to be done without calling it")
	}
	return objects.Error(codes.FailedPrecondition, objects.ReasonCycle, "objects: "+o.displayName()+
		": the call comes back to an object that waits for it: change the order of the calls, or make "+w.method.Name+
		" Reentrant")
}

// needsTurn reports whether a call needs the object to itself.
func (o *object) needsTurn(w *waiter) bool {
	if w.method.concurrent {
		return false
	}
	return !w.method.reentrant || o.turn == 0 || !slices.Contains(w.chain, o.turn)
}

// grantTurn grants w its turn if that is possible now. The caller holds the shard's lock.
func (h *Host) grantTurn(o *object, w *waiter) bool {
	alone := o.needsTurn(w)
	// A turn in an object that is to be dropped may wait for a call that comes back.
	back := !alone && len(w.chain) > 0 && (o.turn != 0 || o.beside > 0)
	if o.phase != phaseActive || o.dropReason != "" && !back || alone && o.turn != 0 {
		return false
	}
	if _, ok := h.enterShard(o.home, w.chain); !ok {
		h.awaitShard(o.home)
		return false
	}
	w.turn, w.exclusive = o.home.newTurn(), alone
	if alone {
		o.turn = w.turn
	} else {
		o.beside++
	}
	o.home.running++
	return true
}

// finishTurn ends a turn. ctx is its context, or nil if none was made.
func (h *Host) finishTurn(w *waiter, ctx *turnContext) {
	o, s := w.object, w.object.home
	s.mu.Lock()
	s.running--
	if ctx != nil {
		if ctx.over = true; ctx.exposed {
			s.unexpose(w.turn)
		}
	}
	if w.exclusive {
		o.turn = 0
	} else {
		o.beside--
	}
	if !w.method.isTick {
		h.touchObject(o)
	}
	h.advanceObject(o)
	s.mu.Unlock()
	h.cfg.Shards.Exit(s.number)
}

// advanceObject does all that an object's state permits now: it activates the object for its waiters, grants them
// turns, or drops the object. The caller holds the shard's lock.
func (h *Host) advanceObject(o *object) {
	switch o.phase {
	case phaseEmpty:
		if o.first != nil {
			h.activateObject(o)
		}
		return
	case phaseActive:
	default:
		return
	}
	if o.dropReason != "" {
		if o.turn == 0 && o.beside == 0 {
			h.deactivateObject(o, o.dropReason)
		}
		return
	}
	for w := o.first; w != nil; {
		next := w.next
		if o.turn != 0 && o.queuedBeside == 0 {
			return
		}
		if h.grantTurn(o, w) {
			o.service.metrics.queued.Observe(time.Since(w.since))
			h.dequeue(w)
			w.owner.resolve(nil)
		} else if o.home.awaiting && o.queuedChains == 0 { // calls with chains may be able to enter the shard already
			return
		}
		w = next
	}
}

// refuseWaiters resolves all waiters of an object with err. The caller holds the shard's lock.
func (h *Host) refuseWaiters(o *object, err error) {
	for w := o.first; w != nil; w = o.first {
		h.dequeue(w)
		w.method.countRefused(err)
		w.owner.resolve(err)
	}
	h.forgetEmpty(o)
}

// abandonWaiter removes a waiter from its queue. It returns false if the waiter is already resolved.
func (h *Host) abandonWaiter(w *waiter) bool {
	s := w.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.queued {
		return false
	}
	o := w.object
	h.dequeue(w)
	h.forgetEmpty(o)
	return true
}

// forgetEmpty forgets an object that is empty and has no waiters. The caller holds the shard's lock.
func (h *Host) forgetEmpty(o *object) {
	if o.phase == phaseEmpty && o.first == nil {
		o.home.removeObject(o)
	}
}

// enqueue queues w. The caller holds the shard's lock.
func (h *Host) enqueue(o *object, w *waiter) {
	w.queued, w.prev = true, o.last
	if o.last == nil {
		o.first = w
	} else {
		o.last.next = w
	}
	o.last = w
	o.queued++
	if w.beside = !o.needsTurn(w); w.beside {
		o.queuedBeside++
	}
	if len(w.chain) > 0 {
		o.queuedChains++
	}
	h.waiting.Add(1)
	o.service.metrics.waiting.Add(1)
}

// dequeue removes w from the queue. The caller holds the shard's lock.
func (h *Host) dequeue(w *waiter) {
	o := w.object
	if w.prev == nil {
		o.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		o.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	o.queued--
	if w.beside {
		o.queuedBeside--
	}
	if len(w.chain) > 0 {
		o.queuedChains--
	}
	h.waiting.Add(-1)
	o.service.metrics.waiting.Add(-1)
}

// displayName returns the object's name for messages.
func (o *object) displayName() string { return o.service.name + " " + quotedKey(o.key) }
