package objects

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/objects/hosted"
)

// Object is one activation, as seen by its implementation. All methods are safe for concurrent use and do not
// block.
type Object hosted.Object

func (o *Object) activation() hosted.Activation { return (*hosted.Object)(o).Activation() }

// Service returns the full name of the service, such as "package.Service".
func (o *Object) Service() string { return o.activation().Service() }

// Key returns the object's key, of 1 to [MaxKey] bytes.
func (o *Object) Key() string { return o.activation().Key() }

// Shard returns the shard of the key.
func (o *Object) Shard() int { return o.activation().Shard() }

// Epoch returns a fencing token that grows with every owner of the shard. Pass it along with everything that
// the object writes, and have the store refuse epochs smaller than the largest it has seen.
func (o *Object) Epoch() int64 { return o.activation().Epoch() }

// Context returns a context that ends when the activation is about to end, before Deactivated is called, or at
// once when the node's session is lost. Use it for work that the object starts and does not wait for.
func (o *Object) Context() context.Context { return o.activation().Context() }

// Valid reports, without a network call, whether at an instant within the call this activation was the only one
// of its key in the cluster. That is so if the activation is not over, and if the node has held its shard all
// the time under a valid session. It holds from the factory until Deactivated has returned, unless the session
// is lost. The process can be paused after Valid returns, so a later action may be too late: pass the epoch to
// stores.
func (o *Object) Valid() bool { return o.activation().Valid() }

// At returns a connection to the objects with the given key, for a generated client. Use the context of the
// turn that makes the calls, so that a circle of calls is recognised.
func (o *Object) At(key string) grpc.ClientConnInterface { return o.activation().At(key) }

// Every calls tick in turns of the object: first one period after the call of Every, and then one period after
// each return of tick. ctx is the context of the turn. The ticks end with the activation or with stop, which
// does not wait for a running tick. Ticks do not keep an object from being idle.
func (o *Object) Every(period time.Duration, tick func(ctx context.Context)) (stop func()) {
	return o.activation().Every(period, tick)
}

// After is like Every for a single tick.
func (o *Object) After(delay time.Duration, tick func(ctx context.Context)) (stop func()) {
	return o.activation().After(delay, tick)
}

// Deactivate ends the activation when the running turn has ended; the next call activates the object anew. Use
// it if the object no longer trusts its state in memory.
func (o *Object) Deactivate() { o.activation().Deactivate() }

// Activator is an implementation that is notified of its activation. Activated runs after the factory, under
// the same limits, and before the first call. Its error is treated like an error of the factory.
type Activator interface {
	Activated(ctx context.Context) error
}

// Deactivator is an implementation that is notified of its deactivation. Deactivated runs after the last call
// has ended, unless the process dies. While the shard moves, the next owner waits for Deactivated to return.
// ctx ends after the drain time-out. Deactivated may call other objects with ctx. A call to an object that is
// itself being deactivated, or that is in a moving shard, fails at once as [NotStarted]. A call to its own
// object fails with [ReasonCycle].
type Deactivator interface {
	Deactivated(ctx context.Context, reason Reason)
}

// Reason is the reason for the end of an activation.
type Reason string

// The reasons.
const (
	Idle      Reason = "idle"      // it was not called for a while
	Evicted   Reason = "evicted"   // the node reached its limit of activations, and this one was the least recently called
	Moved     Reason = "moved"     // the shard moves to another node
	Stopping  Reason = "stopping"  // the node stops
	Lost      Reason = "lost"      // the session was lost or suspended; stores will probably refuse further writes
	Failed    Reason = "failed"    // a call or a tick panicked
	Requested Reason = "requested" // by Object.Deactivate
)
