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

// Moved reports whether a call was not started because its shard is elsewhere.
func Moved(err error) bool { return errors.Is(err, errMoved) }

// MaxChain limits the turns that may wait for one another.
const MaxChain = 64

// resolver receives the outcome of a waiter. Its methods are called under the shard's lock and must not block.
type resolver interface {
	// queue is called before the waiter is queued.
	queue()
	// resolve is called once after queue: with nil when the waiter has its turn, otherwise with an error.
	resolve(err error)
}

// waiter is a call or a tick that waits for its turn, or has it.
type waiter struct {
	method     *Method
	chain      []uint64 // the turns that wait for this one
	generation int64    // of the map by which it came to this node
	owner      resolver

	home       *shard
	object     *object // replaced if the awaited activation ends before the turn
	turn       uint64  // its own turn, once it has one
	alone      bool    // it has the object to itself
	queued     bool
	since      time.Time // the time when it was queued
	beside     bool      // while queued: it does not need the object to itself
	prev, next *waiter
}

// enter grants w its turn at once, or queues it, or returns an error. generation is that of the map by which
// the call came to this node.
func (h *Host) enter(w *waiter, n int, key string, generation int64) (granted bool, err error) {
	defer func() {
		if err != nil {
			w.method.refuse(err)
		}
	}()
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.get(h, w.method.service, key)
	w.home, w.object, w.generation = s, o, generation
	if len(w.chain) > 0 {
		if err := o.cycle(w); err != nil {
			h.tidy(o)
			return false, err
		}
	}
	if (o.first == nil || !o.needsTurn(w)) && h.grant(o, w) {
		return true, nil
	}
	ends := Ending(w.chain)
	switch {
	case ends && h.onItsWay(o, w):
		err = errOnItsWay(o)
	case s.elsewhere > 0 && generation <= s.elsewhere && !h.inside(s, w.chain):
		err = errMoved
	case o.hung:
		err = errHung(o)
	case int(o.queued) >= or(o.service.maxQueue, h.cfg.MaxQueue):
		err = objects.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: "+o.name()+
			": too many calls wait for this object: call it less often, or raise its MaxQueue")
	case h.waiting.Load() >= int64(h.cfg.MaxWaiting):
		err = objects.Error(codes.ResourceExhausted, objects.ReasonQueueFull,
			"objects: too many calls wait for objects of this node")
	}
	if err != nil {
		h.tidy(o)
		return false, err
	}
	w.owner.queue()
	h.push(o, w)
	if ends {
		h.expireQueued(s, w)
	}
	if s.leaving {
		h.await(s)
	}
	h.advance(o)
	return false, nil
}

// cycle returns an error if the call comes back to an object in which a turn waits for it, or if its chain is
// too long.
func (o *object) cycle(w *waiter) error {
	switch {
	case len(w.chain) >= MaxChain:
		return objects.Error(codes.FailedPrecondition, objects.ReasonCycle,
			"objects: "+o.name()+": too many objects wait for one another in this chain of calls")
	case o.turn == 0 || !slices.Contains(w.chain, o.turn) || !o.needsTurn(w) && o.phase == active:
		return nil
	}
	if o.phase == deactivating {
		return objects.Error(codes.FailedPrecondition, objects.ReasonCycle, "objects: "+o.name()+
			": the call comes back to an object whose Deactivated waits for it: do there what is to be done without calling it")
	}
	return objects.Error(codes.FailedPrecondition, objects.ReasonCycle, "objects: "+o.name()+
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

// grant grants w its turn if that is possible now. The caller holds the shard's lock.
func (h *Host) grant(o *object, w *waiter) bool {
	alone := o.needsTurn(w)
	// A turn in an object that is to be dropped may wait for a call that comes back.
	back := !alone && len(w.chain) > 0 && (o.turn != 0 || o.beside > 0)
	if o.phase != active || o.drop != "" && !back || alone && o.turn != 0 {
		return false
	}
	if _, ok := h.enterShard(o.home, w.chain); !ok {
		h.await(o.home)
		return false
	}
	w.turn, w.alone = o.home.newTurn(), alone
	if alone {
		o.turn = w.turn
	} else {
		o.beside++
	}
	o.home.running++
	return true
}

// finish ends a turn. ctx is its context, or nil if none was made.
func (h *Host) finish(w *waiter, ctx *turnContext) {
	o, s := w.object, w.object.home
	s.mu.Lock()
	s.running--
	if ctx != nil {
		if ctx.over = true; ctx.told {
			s.untell(w.turn)
		}
	}
	if w.alone {
		o.turn = 0
	} else {
		o.beside--
	}
	if !w.method.tick {
		h.touch(o)
	}
	h.advance(o)
	s.mu.Unlock()
	h.cfg.Shards.Exit(s.number)
}

// advance does all that an object's state permits now: it activates the object for its waiters, grants them
// turns, or drops the object. The caller holds the shard's lock.
func (h *Host) advance(o *object) {
	switch o.phase {
	case empty:
		if o.first != nil {
			h.activate(o)
		}
		return
	case active:
	default:
		return
	}
	if o.drop != "" {
		if o.turn == 0 && o.beside == 0 {
			h.deactivate(o, o.drop)
		}
		return
	}
	for w := o.first; w != nil; {
		next := w.next
		if o.turn != 0 && o.queuedBeside == 0 {
			return
		}
		if h.grant(o, w) {
			o.service.figures.queued.observe(time.Since(w.since))
			h.pull(w)
			w.owner.resolve(nil)
		} else if o.home.awaiting && o.queuedChains == 0 { // calls with chains may be able to enter the shard already
			return
		}
		w = next
	}
}

// refuse resolves all waiters of an object with err. The caller holds the shard's lock.
func (h *Host) refuse(o *object, err error) {
	for w := o.first; w != nil; w = o.first {
		h.pull(w)
		w.method.refuse(err)
		w.owner.resolve(err)
	}
	h.tidy(o)
}

// abandon removes a waiter from its queue. It returns false if the waiter is already resolved.
func (h *Host) abandon(w *waiter) bool {
	s := w.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.queued {
		return false
	}
	o := w.object
	h.pull(w)
	h.tidy(o)
	return true
}

// tidy forgets an object that is empty and has no waiters. The caller holds the shard's lock.
func (h *Host) tidy(o *object) {
	if o.phase == empty && o.first == nil {
		o.home.forget(o)
	}
}

// push queues w. The caller holds the shard's lock.
func (h *Host) push(o *object, w *waiter) {
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
	w.since = time.Now()
	h.waiting.Add(1)
	o.service.figures.waiting.Add(1)
}

// pull removes w from the queue. The caller holds the shard's lock.
func (h *Host) pull(w *waiter) {
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
	o.service.figures.waiting.Add(-1)
}

// name returns the object's name for messages.
func (o *object) name() string { return o.service.name + " " + quoted(o.key) }
