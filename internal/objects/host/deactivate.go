package host

import (
	"context"

	"github.com/goverse/goverse/cluster/objects"
)

// dropActivation drops an activation as soon as no turn runs in it.
func (o *object) dropActivation(reason objects.Reason) {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.dropReason == "" {
		o.dropReason = reason
		o.extras.endOpenWork()
	}
	o.advanceTurns()
}

// startDeactivation ends an object in which nothing runs. It returns false if its shard leaves; the shard then ends
// the object. The caller holds the shard's lock.
func (o *object) startDeactivation(reason objects.Reason) bool {
	s := o.home
	if _, ok := s.enterShard(nil); !ok {
		if o.turns.first != nil {
			s.awaitServed()
		}
		return false
	}
	o.retireActivation()
	if o.hasDeactivated() && s.host.workers.run(func() {
		defer s.exitShard()
		ctx, cancel := context.WithTimeout(context.Background(), s.host.cfg.DrainTimeout)
		defer cancel()
		o.finishDeactivation(ctx, reason)
	}) {
		return true
	}
	o.replaceActivation(reason) // nothing is to be called, or the host is closed
	s.exitShard()
	return true
}

// retireActivation admits no further turn to an object. The caller holds the shard's lock.
func (o *object) retireActivation() {
	o.phase, o.turns.exclusive = phaseDeactivating, o.home.ids.nextID()
	if o.hasDeactivated() {
		o.home.ids.exposeID(o.turns.exclusive)
	}
	o.service.recent.removeObject(o)
	o.extras.endWork()
}

// hasDeactivated reports whether the implementation has a Deactivated method.
func (o *object) hasDeactivated() bool {
	_, ok := o.impl.(objects.Deactivator)
	return ok
}

// finishDeactivation calls Deactivated and forgets the object, also if Deactivated has left its goroutine.
func (o *object) finishDeactivation(ctx context.Context, reason objects.Reason) {
	defer func() {
		o.home.mu.Lock()
		defer o.home.mu.Unlock()
		o.replaceActivation(reason)
	}()
	o.callDeactivated(ctx, reason)
}

// callDeactivated calls Deactivated, which is the object's last turn.
func (o *object) callDeactivated(ctx context.Context, reason objects.Reason) {
	d, ok := o.impl.(objects.Deactivator)
	if !ok {
		return
	}
	returned := false
	defer func() {
		if !returned {
			o.home.host.failures.reportPanic(o, "Deactivated panicked", recover())
		}
	}()
	d.Deactivated(WithChain(ctx, []uint64{deactivatedMark, o.turns.exclusive}), reason)
	returned = true
}

// replaceActivation forgets an object that has ended. Calls that arrived meanwhile go to the next activation. The
// caller holds the shard's lock.
func (o *object) replaceActivation(reason objects.Reason) {
	s := o.home
	s.ids.concealID(o.turns.exclusive)
	s.host.evictor.activations.Add(-1)
	s.live--
	o.service.metrics.countDeactivated(reason)
	s.removeObject(o)
	if o.turns.first == nil {
		return
	}
	next := s.getObject(objectID{o.service, o.key})
	for t := o.turns.first; t != nil; t = o.turns.first {
		o.dequeueTurn(t)
		t.object = next
		next.enqueueTurn(t)
	}
	next.advanceTurns()
}
