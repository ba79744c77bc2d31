package host

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// phase is the stage of an object's life.
type phase int8

const (
	phaseEmpty      phase = iota // only waiting calls
	phaseActivating              // its factory runs
	phaseActive
	phaseDeactivating
	phaseGone // removed from the shard's table
)

// String returns the phase as operators see it.
func (p phase) String() string {
	switch p {
	case phaseActivating:
		return "activating"
	case phaseActive:
		return "active"
	case phaseDeactivating:
		return "deactivating"
	}
	return "waiting"
}

// object is one activation of a service and a key, or the queue of calls that wait for it. It lasts from its
// first call until nothing of it is left. The lock of its shard protects all fields that change.
type object struct {
	hosted.Object // the part that the implementation sees
	service       *service
	home          *shard
	key           string

	impl   any           // set before the first turn
	epoch  int64         // set before the factory runs
	turns  turnQueue     // the factory and Deactivated have the object to themselves
	extras *objectExtras // nil for most

	older, newer *object // links in service.recent, under its lock
	lastUsed     int64   // the tick of the last call
	since        time.Time

	phase      phase
	hung       bool           // its factory has exceeded the time-out
	dropReason objects.Reason // the reason to drop it once nothing runs in it; empty if it stays
}

// objectID identifies an object on its node.
type objectID struct {
	service *service
	key     string
}

// isIdle reports whether an active object has neither running nor waiting calls.
func (o *object) isIdle() bool {
	return o.phase == phaseActive && !o.turns.isRunning() && o.turns.first == nil
}

// displayName returns the object's name for messages.
func (o *object) displayName() string { return o.service.name + " " + quotedKey(o.key) }

// objectExtras holds the parts that few objects need. All of them end before the object does.
type objectExtras struct {
	ctx    context.Context
	cancel context.CancelFunc
	timers []*objectTimer
	// streams are the open streaming calls, which have no time limit.
	streams map[*Call]struct{}
}

// ensureExtras returns the extras, and creates them if necessary.
func (o *object) ensureExtras() *objectExtras {
	if o.extras == nil {
		o.extras = &objectExtras{}
	}
	return o.extras
}

// endOpenWork ends all that has no time limit: streams, and the object's context. e may be nil. The caller holds the
// shard's lock.
func (e *objectExtras) endOpenWork() {
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

// endWork ends the object's open work and its timers. e may be nil. The caller holds the shard's lock.
func (e *objectExtras) endWork() {
	if e == nil {
		return
	}
	e.endOpenWork()
	for _, t := range e.timers {
		t.endTicks()
	}
	e.timers = nil
}

// activation is an object as its implementation sees it. It implements hosted.Activation.
type activation object

// Service implements hosted.Activation.
func (a *activation) Service() string { return a.service.name }

// Key implements hosted.Activation.
func (a *activation) Key() string { return a.key }

// Shard implements hosted.Activation.
func (a *activation) Shard() int { return a.home.number }

// Epoch implements hosted.Activation.
func (a *activation) Epoch() int64 { return a.epoch }

// Valid implements hosted.Activation. The shard is checked after the phase was read. So if the shard has been
// held without a break, the activation was valid when its phase was read.
func (a *activation) Valid() bool {
	a.home.mu.Lock()
	over := a.phase == phaseEmpty || a.phase == phaseGone
	a.home.mu.Unlock()
	return !over && a.home.host.cfg.Shards.Holds(a.home.number, a.epoch)
}

// At implements hosted.Activation.
func (a *activation) At(key string) grpc.ClientConnInterface { return a.home.host.cfg.At(key) }

// Context implements hosted.Activation.
func (a *activation) Context() context.Context {
	a.home.mu.Lock()
	defer a.home.mu.Unlock()
	e := (*object)(a).ensureExtras()
	switch {
	case e.ctx != nil:
	case a.phase == phaseActivating || a.phase == phaseActive && a.dropReason == "":
		e.ctx, e.cancel = context.WithCancel(a.home.host.cfg.Shards.Drained(a.home.number))
	default: // the shard may have left and come back
		e.ctx, e.cancel = context.WithCancel(context.Background())
		e.cancel()
	}
	return e.ctx
}

// Every implements hosted.Activation.
func (a *activation) Every(period time.Duration, tick func(ctx context.Context)) (stop func()) {
	if period <= 0 {
		panic("objects: the period of Object.Every is to be positive")
	}
	return (*object)(a).scheduleTick(period, period, tick)
}

// After implements hosted.Activation.
func (a *activation) After(delay time.Duration, tick func(ctx context.Context)) (stop func()) {
	return (*object)(a).scheduleTick(delay, 0, tick)
}

// Deactivate implements hosted.Activation.
func (a *activation) Deactivate() { (*object)(a).dropActivation(objects.Requested) }
