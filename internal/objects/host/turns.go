package host

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// errMoved is returned for a call that was not started because its shard is not this node's.
var errMoved = errors.New("the shard of the object is not this node's")

// IsMoved reports whether a call was not started because its shard is elsewhere.
func IsMoved(err error) bool { return errors.Is(err, errMoved) }

// MaxChain limits the turns that may wait for one another.
const MaxChain = 64

// requestTurn begins the turn of a call of the object with that key at once, or queues it, or returns an error.
func (t *turn) requestTurn(key string) (begun bool, err error) {
	s := t.home
	s.mu.Lock()
	defer s.mu.Unlock()
	t.object = s.getObject(objectID{t.method.service, key})
	begun, err = t.object.admitTurn(t)
	if err != nil {
		t.method.countRefused(err)
		t.object.forgetIfEmpty()
	}
	return begun, err
}

// finishTurn ends the turn. ctx is its context, or nil if none was made.
func (t *turn) finishTurn(ctx *turnContext) {
	s, o := t.home, t.object
	s.mu.Lock()
	s.running--
	if ctx != nil {
		if ctx.over = true; ctx.exposed {
			s.ids.concealID(t.id)
		}
	}
	o.turns.endTurn(t)
	if !t.method.isTick && o.phase == phaseActive {
		s.host.evictor.touchObject(o)
	}
	o.advanceTurns()
	s.mu.Unlock()
	s.exitShard()
}

// abandonTurn removes a waiting turn from its queue. It returns false if the turn is already resolved.
func (t *turn) abandonTurn() bool {
	t.home.mu.Lock()
	defer t.home.mu.Unlock()
	if !t.queued {
		return false
	}
	t.object.dequeueTurn(t)
	t.object.forgetIfEmpty()
	return true
}

// admitTurn begins a turn at once, or queues it, or returns an error. The caller holds the shard's lock.
func (o *object) admitTurn(t *turn) (begun bool, err error) {
	if len(t.chain) > 0 {
		if err := o.checkCycle(t); err != nil {
			return false, err
		}
	}
	if (o.turns.first == nil || !o.turns.needsExclusive(t)) && o.beginTurn(t) {
		return true, nil
	}
	s, ends := o.home, AwaitedByDeactivated(t.chain)
	switch {
	case ends && o.waitsForLeave(t):
		return false, errLeaving(o)
	case s.elsewhereGeneration > 0 && t.generation <= s.elsewhereGeneration && !s.mayReenter(t.chain):
		return false, errMoved
	case o.hung:
		return false, errHung(o)
	case int(o.turns.queued) >= orDefault(o.service.maxQueue, s.host.cfg.MaxQueue):
		return false, hosted.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: "+o.displayName()+
			": too many calls wait for this object: call it less often, or raise its MaxQueue")
	case s.host.waiting.Load() >= int64(s.host.cfg.MaxWaiting):
		return false, hosted.Error(codes.ResourceExhausted, objects.ReasonQueueFull,
			"objects: too many calls wait for objects of this node")
	}
	t.since = time.Now()
	o.enqueueTurn(t)
	if ends {
		s.expireQueued(objectID{o.service, o.key})
	}
	if s.leaving {
		s.awaitServed()
	}
	o.advanceTurns()
	return false, nil
}

// checkCycle returns an error if the call comes back to an object in which a turn waits for it, or if its chain is
// too long.
func (o *object) checkCycle(t *turn) error {
	problem := ": the call comes back to an object that waits for it: change the order of the calls, or make " +
		t.method.Name + " Reentrant"
	switch {
	case len(t.chain) >= MaxChain:
		problem = ": too many objects wait for one another in this chain of calls"
	case !o.turns.waitsFor(t) || !o.turns.needsExclusive(t) && o.phase == phaseActive:
		return nil
	case o.phase == phaseDeactivating:
		problem = ": the call comes back to an object whose Deactivated waits for it: do there what is to be done " +
			"without calling it"
	}
	return hosted.Error(codes.FailedPrecondition, objects.ReasonCycle, "objects: "+o.displayName()+problem)
}

// beginTurn begins a turn if that is possible now. The caller holds the shard's lock.
func (o *object) beginTurn(t *turn) bool {
	if o.phase != phaseActive || !o.turns.mayBegin(t, o.dropReason != "") {
		return false
	}
	s := o.home
	if _, ok := s.enterShard(t.chain); !ok {
		s.awaitServed()
		return false
	}
	o.turns.beginTurn(t, s.ids.nextID())
	s.running++
	s.begun++
	return true
}

// advanceTurns does all that the object's state permits now: it activates the object for its waiting turns, begins
// them, or drops the object. The caller holds the shard's lock.
func (o *object) advanceTurns() {
	switch {
	case o.phase == phaseEmpty && o.turns.first != nil:
		o.startActivation()
	case o.phase != phaseActive:
	case o.dropReason != "" && !o.turns.isRunning():
		o.startDeactivation(o.dropReason)
	case o.dropReason == "" || o.turns.queuedChains > 0: // a running turn may wait for one that is queued
		o.beginWaiting()
	}
}

// beginWaiting begins all waiting turns that may begin. The caller holds the shard's lock.
func (o *object) beginWaiting() {
	for t := o.turns.first; t != nil && !o.turns.isBlocked(); {
		next := t.next
		if o.beginTurn(t) {
			o.service.metrics.queued.Observe(time.Since(t.since))
			o.dequeueTurn(t)
			t.owner.resolveTurn(nil)
		} else if o.home.awaiting && o.turns.queuedChains == 0 { // turns with chains may be able to enter already
			return
		}
		t = next
	}
}

// refuseTurn resolves a waiting turn with err. The caller holds the shard's lock.
func (o *object) refuseTurn(t *turn, err error) {
	o.dequeueTurn(t)
	t.method.countRefused(err)
	t.owner.resolveTurn(err)
}

// refuseWaiting refuses all waiting turns of the object. The caller holds the shard's lock.
func (o *object) refuseWaiting(err error) {
	for o.turns.first != nil {
		o.refuseTurn(o.turns.first, err)
	}
	o.forgetIfEmpty()
}

// forgetIfEmpty forgets an object that is empty and has no waiting turns. The caller holds the shard's lock.
func (o *object) forgetIfEmpty() {
	if o.phase == phaseEmpty && o.turns.first == nil {
		o.home.removeObject(o)
	}
}

// enqueueTurn queues a turn. The caller holds the shard's lock.
func (o *object) enqueueTurn(t *turn) {
	o.turns.pushTurn(t)
	o.home.host.waiting.Add(1)
	o.service.metrics.waiting.Add(1)
}

// dequeueTurn removes a turn from the queue. The caller holds the shard's lock.
func (o *object) dequeueTurn(t *turn) {
	o.turns.removeTurn(t)
	o.home.host.waiting.Add(-1)
	o.service.metrics.waiting.Add(-1)
}
