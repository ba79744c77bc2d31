package host

import (
	"context"
	"runtime/debug"

	"github.com/goverse/goverse/cluster/objects"
)

// dropLater drops an activation when the turn that runs has ended.
func (h *Host) dropLater(o *object, reason objects.Reason) {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.drop == "" {
		o.drop = reason
		o.endOpen()
	}
	h.advance(o)
}

// endOpen ends what may stay open for as long as it likes: streams, and what the object's context is for. The lock of
// the shard is held.
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

// deactivate ends an object in which nothing runs. It reports false if its shard leaves, which does it then. The
// lock of the shard is held.
func (h *Host) deactivate(o *object, reason objects.Reason) bool {
	if _, ok := h.enterShard(o.home, nil); !ok {
		if o.first != nil {
			h.await(o.home)
		}
		return false
	}
	h.retire(o)
	if !o.notified() {
		h.bury(o, reason)
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
		h.bury(o, reason)
		h.cfg.Shards.Exit(o.home.number)
	}
	return true
}

// retire lets no further turn into an object. The lock of the shard is held.
func (h *Host) retire(o *object) {
	o.phase, o.turn = deactivating, o.home.newTurn()
	if o.notified() {
		o.home.tell(o.turn)
	}
	h.outOfUse(o)
	o.end()
}

// end ends the object's context and its timers. The lock of the shard is held.
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

// notified reports whether the implementation is notified of its end.
func (o *object) notified() bool {
	_, ok := o.impl.(objects.Deactivator)
	return ok
}

// leave calls Deactivated, and forgets the object, also where that has left its goroutine.
func (h *Host) leave(ctx context.Context, o *object, reason objects.Reason) {
	defer func() {
		o.home.mu.Lock()
		defer o.home.mu.Unlock()
		h.bury(o, reason)
	}()
	h.notify(ctx, o, reason)
}

// notify calls Deactivated, which is a turn: the last one.
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

// bury forgets an object that has ended. Calls that came meanwhile go to the next activation. The lock of the
// shard is held.
func (h *Host) bury(o *object, reason objects.Reason) {
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
