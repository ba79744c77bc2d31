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
	if o.drop == "" {
		o.drop = reason
		o.endOpen()
	}
	h.advance(o)
}

// endOpen ends all that has no time limit: streams, and the object's context. The caller holds the shard's
// lock.
func (o *object) endOpen() {
	e := o.extras
	if e == nil {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	for c := range e.streams {
		close(c.dropped)
		c.ctx.cut(errDropped)
	}
	e.streams = nil
}

// deactivate ends an object in which nothing runs. It returns false if its shard leaves; Leave then ends the
// object. The caller holds the shard's lock.
func (h *Host) deactivate(o *object, reason objects.Reason) bool {
	if _, ok := h.enterShard(o.home, nil); !ok {
		if o.first != nil {
			h.await(o.home)
		}
		return false
	}
	h.retire(o)
	if !o.notified() {
		h.removeEnded(o, reason)
		h.cfg.Shards.Exit(o.home.number)
		return true
	}
	spawned := h.spawn(func() {
		defer h.cfg.Shards.Exit(o.home.number)
		ctx, cancel := context.WithTimeout(context.Background(), h.cfg.DrainTimeout)
		defer cancel()
		h.leave(ctx, o, reason)
	})
	if !spawned { // the node has stopped
		h.removeEnded(o, reason)
		h.cfg.Shards.Exit(o.home.number)
	}
	return true
}

// retire admits no further turn to an object. The caller holds the shard's lock.
func (h *Host) retire(o *object) {
	o.phase, o.turn = deactivating, o.home.newTurn()
	if o.notified() {
		o.home.expose(o.turn)
	}
	h.outOfUse(o)
	o.end()
}

// end ends the object's context and its timers. The caller holds the shard's lock.
func (o *object) end() {
	e := o.extras
	if e == nil {
		return
	}
	o.endOpen()
	for _, t := range e.timers {
		t.end()
	}
	e.timers = nil
}

// notified reports whether the implementation has a Deactivated method.
func (o *object) notified() bool {
	_, ok := o.impl.(objects.Deactivator)
	return ok
}

// leave calls Deactivated and forgets the object, also if Deactivated has left its goroutine.
func (h *Host) leave(ctx context.Context, o *object, reason objects.Reason) {
	defer func() {
		o.home.mu.Lock()
		defer o.home.mu.Unlock()
		h.removeEnded(o, reason)
	}()
	h.notify(ctx, o, reason)
}

// notify calls Deactivated, which is the object's last turn.
func (h *Host) notify(ctx context.Context, o *object, reason objects.Reason) {
	d, ok := o.impl.(objects.Deactivator)
	if !ok {
		return
	}
	returned := false
	defer func() {
		if !returned {
			p := recover()
			o.service.figures.panics.Add(1)
			h.cfg.Logger.Error("Deactivated panicked", "service", o.service.name, "key", logged(o.key), "panic", p,
				"stack", string(debug.Stack()))
		}
	}()
	d.Deactivated(WithChain(ctx, []uint64{endingMark, o.turn}), reason)
	returned = true
}

// removeEnded forgets an object that has ended. Calls that arrived meanwhile go to the next activation. The caller
// holds the shard's lock.
func (h *Host) removeEnded(o *object, reason objects.Reason) {
	s := o.home
	s.untell(o.turn)
	h.active.Add(-1)
	s.live--
	o.service.figures.deactivated(reason)
	s.forget(o)
	if o.first == nil {
		return
	}
	next := s.get(h, o.service, o.key)
	for w := o.first; w != nil; w = o.first {
		h.pull(w)
		w.object = next
		h.push(next, w)
	}
	h.advance(next)
}
