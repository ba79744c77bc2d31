package host

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
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

// object is one activation of a service and a key, or the queue of calls that wait for it. It lasts from its
// first call until nothing of it is left. The lock of its shard protects all fields that change.
type object struct {
	objects.Object // the part that the implementation sees
	host           *Host
	service        *service
	home           *shard
	key            string

	impl        any           // set before the first turn
	epoch       int64         // set before the factory runs
	turn        uint64        // the id of the turn that has the object to itself; 0 if none
	first, last *waiter       // the queue of waiting calls
	extras      *objectExtras // nil for most

	older, newer *object // links in service.recent, under its lock
	lastUsed     int64   // the tick of the last call
	since        time.Time

	beside       int32 // the number of calls that run beside the turn
	queued       int32
	queuedBeside int32 // queued calls that do not need the turn
	queuedChains int32 // queued calls that other turns wait for
	phase        phase
	hung         bool           // its factory has exceeded the time-out
	dropReason   objects.Reason // the reason to drop it once nothing runs in it; empty if it stays
}

// objectID identifies an object on its node.
type objectID struct {
	service *service
	key     string
}

// objectExtras holds the fields that few objects need.
type objectExtras struct {
	ctx    context.Context
	cancel context.CancelFunc
	timers []*objectTimer
	// streams are the open streaming calls, which have no time limit.
	streams map[*Call]struct{}
}

// isIdle reports whether an active object has neither running nor waiting calls.
func (o *object) isIdle() bool {
	return o.phase == phaseActive && o.turn == 0 && o.beside == 0 && o.first == nil
}

// ensureExtras returns the extras, and creates them if necessary.
func (o *object) ensureExtras() *objectExtras {
	if o.extras == nil {
		o.extras = &objectExtras{}
	}
	return o.extras
}

// Service implements objects.Activation.
func (o *object) Service() string { return o.service.name }

// Key implements objects.Activation.
func (o *object) Key() string { return o.key }

// Shard implements objects.Activation.
func (o *object) Shard() int { return o.home.number }

// Epoch implements objects.Activation.
func (o *object) Epoch() int64 { return o.epoch }

// Valid implements objects.Activation. The shard is checked after the phase was read. So if the shard has been
// held without a break, the activation was valid when its phase was read.
func (o *object) Valid() bool {
	o.home.mu.Lock()
	over := o.phase == phaseEmpty || o.phase == phaseGone
	o.home.mu.Unlock()
	return !over && o.host.cfg.Shards.Holds(o.home.number, o.epoch)
}

// At implements objects.Activation.
func (o *object) At(key string) grpc.ClientConnInterface { return o.host.cfg.At(key) }

// Context implements objects.Activation.
func (o *object) Context() context.Context {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	e := o.ensureExtras()
	switch {
	case e.ctx != nil:
	case o.phase == phaseActivating || o.phase == phaseActive && o.dropReason == "":
		e.ctx, e.cancel = context.WithCancel(o.host.cfg.Shards.Drained(o.home.number))
	default: // the shard may have left and come back
		e.ctx, e.cancel = context.WithCancel(context.Background())
		e.cancel()
	}
	return e.ctx
}

// Deactivate implements objects.Activation.
func (o *object) Deactivate() { o.host.dropLater(o, objects.Requested) }
