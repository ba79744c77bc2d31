package host

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/objects"
)

// objectTimer is one timer of an object. The shard's lock protects the fields that change.
type objectTimer struct {
	object  *object
	tick    func(ctx context.Context)
	period  time.Duration // 0 means once
	timer   *time.Timer
	waiting *waiter // nil if no tick waits
	ended   bool
}

// Every implements objects.Activation.
func (o *object) Every(period time.Duration, tick func(ctx context.Context)) (stop func()) {
	if period <= 0 {
		panic("objects: the period of Object.Every is to be positive")
	}
	return o.scheduleTick(period, period, tick)
}

// After implements objects.Activation.
func (o *object) After(delay time.Duration, tick func(ctx context.Context)) (stop func()) {
	return o.scheduleTick(delay, 0, tick)
}

func (o *object) scheduleTick(delay, period time.Duration, tick func(ctx context.Context)) (stop func()) {
	t := &objectTimer{object: o, tick: tick, period: period}
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.phase >= phaseDeactivating {
		return func() {}
	}
	e := o.ensureExtras()
	e.timers = append(e.timers, t)
	t.timer = time.AfterFunc(delay, t.queueTick)
	return t.stop
}

// queueTick queues a tick.
func (t *objectTimer) queueTick() {
	o := t.object
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if t.ended {
		return
	}
	t.waiting = &waiter{method: &o.service.tickMethod, home: o.home, object: o, owner: t, since: time.Now()}
	o.host.enqueue(o, t.waiting)
	o.host.advanceObject(o)
}

// resolve implements resolver.
func (t *objectTimer) resolve(err error) {
	w := t.waiting
	t.waiting = nil
	if h := t.object.host; err == nil && !h.spawn(func() { t.runTick(w) }) {
		go h.finishTurn(w, nil) // the caller holds the shard's lock
	}
}

// runTick runs one tick.
func (t *objectTimer) runTick(w *waiter) {
	o, h := t.object, t.object.host
	c := &turnContext{host: h, shard: o.home.number, turn: w.turn}
	returned := false
	defer func() {
		if !returned { // also if it has left its goroutine
			p := recover()
			o.service.metrics.panics.Add(1)
			h.cfg.Logger.Error("a tick of an object panicked; the object is dropped", "service", o.service.name,
				"key", loggedKey(o.key), "panic", p, "stack", string(debug.Stack()))
			h.dropLater(o, objects.Failed)
		}
		c.endTurn()
		t.armNext()
		h.finishTurn(w, c)
	}()
	t.tick(c)
	returned = true
}

// armNext arms the timer for the next tick.
func (t *objectTimer) armNext() {
	t.object.home.mu.Lock()
	defer t.object.home.mu.Unlock()
	if t.period == 0 {
		t.removeTimer()
	} else if !t.ended {
		t.timer.Reset(t.period)
	}
}

func (t *objectTimer) stop() {
	t.object.home.mu.Lock()
	defer t.object.home.mu.Unlock()
	t.endTicks()
	t.removeTimer()
}

// endTicks stops the timer, so no further tick begins. The caller holds the shard's lock.
func (t *objectTimer) endTicks() {
	t.ended = true
	t.timer.Stop()
	if w := t.waiting; w != nil {
		t.waiting = nil
		t.object.host.dequeue(w)
	}
}

func (t *objectTimer) removeTimer() {
	if e := t.object.extras; e != nil {
		e.timers = slices.DeleteFunc(e.timers, func(other *objectTimer) bool { return other == t })
	}
}
