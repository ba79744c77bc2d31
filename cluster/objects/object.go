package objects

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// Object is one activation as its implementation sees it. All methods are safe for concurrent use; they
// do not block.
type Object struct{ activation Activation }

// Activation is what a host knows of an activation. It is for hosts and for tests of implementations,
// which may have one of their own.
type Activation interface {
	Service() string
	Key() string
	Shard() int
	Epoch() int64
	Context() context.Context
	Valid() bool
	At(key string) grpc.ClientConnInterface
	Every(period time.Duration, tick func(ctx context.Context)) (stop func())
	After(delay time.Duration, tick func(ctx context.Context)) (stop func())
	Deactivate()
}

// Make is the Object of an activation.
func Make(a Activation) Object { return Object{a} }

// Service is the full name of the service, as "package.Service".
func (o *Object) Service() string { return o.activation.Service() }

// Key is the object's key: 1 to [MaxKey] bytes.
func (o *Object) Key() string { return o.activation.Key() }

// Shard is the shard of the key.
func (o *Object) Shard() int { return o.activation.Shard() }

// Epoch is a fencing token: it grows with every owner of the shard. Send it along with whatever the object
// writes, and have the store refuse a smaller one than it has seen.
func (o *Object) Epoch() int64 { return o.activation.Epoch() }

// Context ends when the activation is to end, before its Deactivated method is called; and at once when the
// node's session is lost. It is for what the object starts and does not wait for.
func (o *Object) Context() context.Context { return o.activation.Context() }

// Valid reports, without asking anybody, whether this activation is the only one of its key in the cluster at an
// instant within the call: it is not over, and the node has its shard by a session that has been valid all the time.
// That holds from the factory until Deactivated has returned, but where the session is lost. What is done after it may
// come late, for the process can be paused; so give stores the epoch.
func (o *Object) Valid() bool { return o.activation.Valid() }

// At calls other objects: it is the connection of the object with that key, for a generated client. Give the calls
// the context of the turn that makes them, so that a circle of calls is recognised.
func (o *Object) At(key string) grpc.ClientConnInterface { return o.activation.At(key) }

// Every calls tick in turns of the object, first a period after Every was called, and then a period after each return;
// ctx is that of the turn. It ends with the activation, or with stop, which does not wait
// for a tick that runs. Ticks do not keep an object from being idle.
func (o *Object) Every(period time.Duration, tick func(ctx context.Context)) (stop func()) {
	return o.activation.Every(period, tick)
}

// After is Every for one tick.
func (o *Object) After(delay time.Duration, tick func(ctx context.Context)) (stop func()) {
	return o.activation.After(delay, tick)
}

// Deactivate drops the activation when the turn that runs has ended; the next call makes another
// one. It is for an object that does not trust what it has in memory.
func (o *Object) Deactivate() { o.activation.Deactivate() }

// Activator is an implementation that is notified of its activation. Activated runs after the factory,
// under the same limits, and before the first call; an error is like one of the factory.
type Activator interface {
	Activated(ctx context.Context) error
}

// Deactivator is an implementation that is notified of its end. Deactivated runs when the last call has ended,
// unless the process dies; while the shard moves, its next owner waits for it. ctx ends after the
// drain time-out. It may call objects, with ctx: those that are served. A call to one that is being deactivated itself,
// or whose shard is on its way, fails at once as [NotStarted], and one to its own object with [ReasonCycle].
type Deactivator interface {
	Deactivated(ctx context.Context, reason Reason)
}

// Reason is why an activation ends.
type Reason string

// The reasons.
const (
	Idle      Reason = "idle"      // nobody called it for a while
	Evicted   Reason = "evicted"   // the node had its limit of activations, and this was the least recently called
	Moved     Reason = "moved"     // the shard moves to another node
	Stopping  Reason = "stopping"  // the node stops
	Lost      Reason = "lost"      // the session was lost or suspended: what is written now is likely to be refused
	Failed    Reason = "failed"    // a call or a tick panicked
	Requested Reason = "requested" // by Object.Deactivate
)
