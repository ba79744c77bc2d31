package host

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
)

// phase is how far an object has come.
type phase int8

const (
	empty      phase = iota // nothing but calls that wait
	activating              // its factory runs
	active
	deactivating
	gone // out of the shard's table
)

// object is one activation of a service and a key, from the call that it is made for until nothing of
// it is left. All but what never changes is under the lock of its shard.
type object struct {
	objects.Object // what the implementation has
	host           *Host
	service        *service
	home           *shard
	key            string

	impl        any     // set before the first turn
	epoch       int64   // set before the factory runs
	turn        uint64  // who has the object to itself, 0: nobody
	first, last *waiter // calls that wait
	extras      *extras // nil for most

	older, newer *object // in service.recent, under its lock
	used         int64   // the tick of the last call
	since        time.Time

	beside       int32 // calls that run beside the turn
	queued       int32
	queuedBeside int32 // of those, how many do not need the turn
	queuedChains int32 // of those, how many other turns wait for
	phase        phase
	hung         bool           // its factory has not returned in time
	drop         objects.Reason // to be dropped as soon as nothing runs in it
}

// id names an object on its node.
type id struct {
	service *service
	key     string
}

// extras are what few objects have.
type extras struct {
	ctx    context.Context
	cancel context.CancelFunc
	timers []*timer
	// streams are the calls that stay open for as long as they like.
	streams map[*Call]struct{}
}

// idle reports whether nothing runs in an active object, or waits for it.
func (o *object) idle() bool {
	return o.phase == active && o.turn == 0 && o.beside == 0 && o.first == nil
}

// more are the extras, made now if need be.
func (o *object) more() *extras {
	if o.extras == nil {
		o.extras = &extras{}
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

// Valid implements objects.Activation. An activation that is not over and whose shard has been held without a break
// since was valid when its phase was read.
func (o *object) Valid() bool {
	o.home.mu.Lock()
	over := o.phase == empty || o.phase == gone
	o.home.mu.Unlock()
	return !over && o.host.cfg.Shards.Holds(o.home.number, o.epoch)
}

// At implements objects.Activation.
func (o *object) At(key string) grpc.ClientConnInterface { return o.host.cfg.At(key) }

// Context implements objects.Activation.
func (o *object) Context() context.Context {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	e := o.more()
	switch {
	case e.ctx != nil:
	case o.phase == activating || o.phase == active && o.drop == "":
		e.ctx, e.cancel = context.WithCancel(o.host.cfg.Shards.Drained(o.home.number))
	default: // the shard may have gone, and come back
		e.ctx, e.cancel = context.WithCancel(context.Background())
		e.cancel()
	}
	return e.ctx
}

// Deactivate implements objects.Activation.
func (o *object) Deactivate() { o.host.dropLater(o, objects.Requested) }
