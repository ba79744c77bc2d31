package host

import (
	"context"
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
	waiting *turn // nil if no tick waits
	ended   bool
}

// scheduleTick queues a tick after the delay, and again one period after the end of each tick; a period of 0 means
// once.
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
	t.waiting = &turn{method: &o.service.tickMethod, home: o.home, object: o, owner: t, since: time.Now()}
	o.enqueueTurn(t.waiting)
	o.advanceTurns()
}

// resolveTurn implements resolver.
func (t *objectTimer) resolveTurn(err error) {
	turn := t.waiting
	t.waiting = nil
	if err == nil && !t.object.home.host.workers.run(func() { t.runTick(turn) }) {
		go turn.finishTurn(nil) // the caller holds the shard's lock
	}
}

// runTick runs one tick.
func (t *objectTimer) runTick(turn *turn) {
	o := t.object
	c := &turnContext{shard: o.home, turn: turn.id}
	returned := false
	defer func() {
		if !returned { // also if it has left its goroutine
			o.home.host.failures.reportPanic(o, "a tick of an object panicked; the object is dropped", recover())
			o.dropActivation(objects.Failed)
		}
		c.endTurn()
		t.armNext()
		turn.finishTurn(c)
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
	if t.waiting != nil {
		t.object.dequeueTurn(t.waiting)
		t.waiting = nil
	}
}

func (t *objectTimer) removeTimer() {
	if e := t.object.extras; e != nil {
		e.timers = slices.DeleteFunc(e.timers, func(other *objectTimer) bool { return other == t })
	}
}
