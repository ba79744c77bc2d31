package host

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/objects"
)

// timer is one timer of an object. The shard's lock protects the fields that change.
type timer struct {
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
	return o.schedule(period, period, tick)
}

// After implements objects.Activation.
func (o *object) After(delay time.Duration, tick func(ctx context.Context)) (stop func()) {
	return o.schedule(delay, 0, tick)
}

func (o *object) schedule(delay, period time.Duration, tick func(ctx context.Context)) (stop func()) {
	t := &timer{object: o, tick: tick, period: period}
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.phase >= deactivating {
		return func() {}
	}
	e := o.more()
	e.timers = append(e.timers, t)
	t.timer = time.AfterFunc(delay, t.due)
	return t.stop
}

// due queues a tick.
func (t *timer) due() {
	o := t.object
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if t.ended {
		return
	}
	t.waiting = &waiter{method: &o.service.ticks, home: o.home, object: o, owner: t}
	o.host.push(o, t.waiting)
	o.host.advance(o)
}

// queue implements resolver.
func (t *timer) queue() {}

// resolve implements resolver.
func (t *timer) resolve(err error) {
	w := t.waiting
	t.waiting = nil
	if err == nil && !t.object.host.spawn(func() { t.run(w) }) {
		t.object.host.dropTurn(w)
	}
}

// run runs one tick.
func (t *timer) run(w *waiter) {
	o, h := t.object, t.object.host
	c := &turnContext{host: h, shard: o.home.number, turn: w.turn}
	returned := false
	defer func() {
		if !returned { // also if it has left its goroutine
			p := recover()
			o.service.figures.panics.Add(1)
			h.cfg.Logger.Error("a tick of an object panicked; the object is dropped", "service", o.service.name,
				"key", logged(o.key), "panic", p, "stack", string(debug.Stack()))
			h.dropLater(o, objects.Failed)
		}
		c.end()
		t.next()
		h.finish(w, c)
	}()
	t.tick(c)
	returned = true
}

// next arms the timer for the next tick.
func (t *timer) next() {
	t.object.home.mu.Lock()
	defer t.object.home.mu.Unlock()
	if t.period == 0 {
		t.remove()
	} else if !t.ended {
		t.timer.Reset(t.period)
	}
}

func (t *timer) stop() {
	t.object.home.mu.Lock()
	defer t.object.home.mu.Unlock()
	t.end()
	t.remove()
}

// end stops the timer, so no further tick begins. The caller holds the shard's lock.
func (t *timer) end() {
	t.ended = true
	t.timer.Stop()
	if w := t.waiting; w != nil {
		t.waiting = nil
		t.object.host.pull(w)
	}
}

func (t *timer) remove() {
	if e := t.object.extras; e != nil {
		e.timers = slices.DeleteFunc(e.timers, func(other *timer) bool { return other == t })
	}
}
