package host

import (
	"context"
	"runtime/debug"

	"github.com/goverse/goverse/cluster/objects"
)

// dropLater drops an activation as soon as no turn runs in it.
func (h *Host) dropLater(o *object, reason objects.Reason) {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.dropReason == "" {
		o.dropReason = reason
		o.endOpenWork()
	}
	h.advanceObject(o)
}

// endOpenWork ends all that has no time limit: streams, and the object's context. The caller holds the shard's
// lock.
func (o *object) endOpenWork() {
	e := o.extras
	if e == nil {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	for c := range e.streams {
		close(c.dropped)
		c.ctx.endEarly(errDropped)
	}
	e.streams = nil
}

// deactivateObject ends an object in which nothing runs. It returns false if its shard leaves; Leave then ends the
// object. The caller holds the shard's lock.
func (h *Host) deactivateObject(o *object, reason objects.Reason) bool {
	if _, ok := h.enterShard(o.home, nil); !ok {
		if o.first != nil {
			h.awaitShard(o.home)
		}
		return false
	}
	h.retireObject(o)
	if !o.hasDeactivated() {
		h.removeEnded(o, reason)
		h.cfg.Shards.Exit(o.home.number)
		return true
	}
	spawned := h.spawn(func() {
		defer h.cfg.Shards.Exit(o.home.number)
		ctx, cancel := context.WithTimeout(context.Background(), h.cfg.DrainTimeout)
		defer cancel()
		h.finishDeactivation(ctx, o, reason)
	})
	if !spawned { // the node has stopped
		h.removeEnded(o, reason)
		h.cfg.Shards.Exit(o.home.number)
	}
	return true
}

// retireObject admits no further turn to an object. The caller holds the shard's lock.
func (h *Host) retireObject(o *object) {
	o.phase, o.turn = phaseDeactivating, o.home.newTurn()
	if o.hasDeactivated() {
		o.home.expose(o.turn)
	}
	h.removeRecent(o)
	o.endExtras()
}

// endExtras ends the object's context and its timers. The caller holds the shard's lock.
func (o *object) endExtras() {
	e := o.extras
	if e == nil {
		return
	}
	o.endOpenWork()
	for _, t := range e.timers {
		t.endTicks()
	}
	e.timers = nil
}

// hasDeactivated reports whether the implementation has a Deactivated method.
func (o *object) hasDeactivated() bool {
	_, ok := o.impl.(objects.Deactivator)
	return ok
}

// finishDeactivation calls Deactivated and forgets the object, also if Deactivated has left its goroutine.
func (h *Host) finishDeactivation(ctx context.Context, o *object, reason objects.Reason) {
	defer func() {
		o.home.mu.Lock()
		defer o.home.mu.Unlock()
		h.removeEnded(o, reason)
	}()
	h.callDeactivated(ctx, o, reason)
}

// callDeactivated calls Deactivated, which is the object's last turn.
func (h *Host) callDeactivated(ctx context.Context, o *object, reason objects.Reason) {
	d, ok := o.impl.(objects.Deactivator)
	if !ok {
		return
	}
	returned := false
	defer func() {
		if !returned {
			p := recover()
			o.service.metrics.panics.Add(1)
			h.cfg.Logger.Error("Deactivated panicked", "service", o.service.name, "key", loggedKey(o.key), "panic", p,
				"stack", string(debug.Stack()))
		}
	}()
	d.Deactivated(WithChain(ctx, []uint64{deactivatedMark, o.turn}), reason)
	returned = true
}

// removeEnded forgets an object that has ended. Calls that arrived meanwhile go to the next activation. The caller
// holds the shard's lock.
func (h *Host) removeEnded(o *object, reason objects.Reason) {
	s := o.home
	s.unexpose(o.turn)
	h.activations.Add(-1)
	s.live--
	o.service.metrics.countDeactivated(reason)
	s.removeObject(o)
	if o.first == nil {
		return
	}
	next := s.getObject(h, o.service, o.key)
	for w := o.first; w != nil; w = o.first {
		h.dequeue(w)
		w.object = next
		h.enqueue(next, w)
	}
	h.advanceObject(next)
}
