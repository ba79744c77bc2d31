package lock

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Errors to test for with errors.Is.
var (
	// ErrLost is returned when the lock was lost before it was released; see [LostError].
	ErrLost = errors.New("the lock was lost")
	// ErrReleased is the cause of a lock's context after Release.
	ErrReleased = leasequeue.ErrReleased
	// ErrKeyLost is the cause of a lock's context when another process deleted its key out of band.
	ErrKeyLost = leaderelection.ErrKeyLost
	// ErrNotStarted is returned when the registry's cluster has not started yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStopped is returned when the node stops, or has stopped. It is also the cause of the contexts of locks
	// held at that time.
	ErrStopped = lifecycle.ErrStopped
	// ErrBadName is returned for a name of a lock that is not from 1 to 512 bytes long.
	ErrBadName = lifecycle.ErrBadName
)

// LostError describes the loss of a lock. It matches [ErrLost].
type LostError struct {
	Name  string
	Token int64
	Err   error // a session.LostError, ErrKeyLost, or ErrStopped
}

// Error names the lock and the reason.
func (e *LostError) Error() string {
	return fmt.Sprintf("lock %q, token %d: %v: %v", e.Name, e.Token, ErrLost, e.Err)
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// LockRegistry grants locks. All methods are safe for concurrent use.
type LockRegistry interface {
	// Acquire blocks until the caller holds the lock, or ctx ends. If ctx ends it returns ctx's cause, and the
	// caller's entry leaves the queue as soon as etcd answers. Locks are granted first come, first served. Two
	// callers in one process exclude each other like any others. If the session is lost while the caller waits,
	// the caller only loses its place in the queue. Other errors are ErrBadName, ErrNotStarted, ErrStopped, and
	// that of a request that etcd permanently refused.
	Acquire(ctx context.Context, name string, opts ...Option) (Held, error)
	// TryAcquire takes the lock if it is free and no caller waits for it, and reports whether it did; if not,
	// Held is nil. Until it has returned, an unsuccessful caller counts as a waiting one: of two calls at the
	// moment of a release, both may fail. TryAcquire does not wait for the lock. It waits for etcd, and without a
	// session for the next one, until ctx ends. No lock is free while the session is not valid, nor while a node
	// may still rely on a lock after etcd has deleted its key too early. Errors are the same as for Acquire.
	TryAcquire(ctx context.Context, name string, opts ...Option) (Held, bool, error)
}

// Held is a lock that the caller holds. All methods are safe for concurrent use.
type Held interface {
	// Name returns the lock's name.
	Name() string
	// Token returns the fencing token of this grant. It is larger than that of every earlier grant of the same
	// name, or, for a shared lock, of every earlier exclusive grant.
	Token() int64
	// Context returns a context that ends when the lock is released or lost, at the session's deadline at the
	// latest. Its cause is ErrReleased, ErrStopped, ErrKeyLost or a session.LostError.
	Context() context.Context
	// Valid reports whether the caller may act on the lock at this instant. It does not use the network.
	Valid() bool
	// Guard returns comparisons that hold in an etcd transaction exactly while the grant lasts in etcd. Use them
	// in transactions of your own, as in client.Txn(ctx).If(held.Guard()...). A lock of [Memory] has none.
	Guard() []clientv3.Cmp
	// Txn returns a transaction that etcd commits only while this grant lasts. If the lock is lost or released,
	// Commit writes nothing and returns an error that matches ErrLost or ErrReleased. Otherwise Commit behaves as in
	// an ordinary transaction: Succeeded concerns the caller's own comparisons. The transaction must not be used
	// concurrently. A write without an answer may still be committed as long as the grant lasts, even after a later
	// write; a caller that cannot tell the two apart must release the lock before it goes on. Under a lock of
	// [Memory], Commit always fails.
	Txn(ctx context.Context) clientv3.Txn
	// Release ends the lock's context, gives up the lock, and blocks until that is done or ctx ends. In the
	// latter case the lock is given up as soon as etcd answers. Releasing twice is harmless. The error is ctx's
	// cause; a LostError if the lock was lost before, so that work under it may have overlapped with another
	// holder's; or that of a request that etcd refused, for example rpctypes.ErrPermissionDenied. In the last
	// case no other caller gets the lock until etcd accepts the release, which is retried every third of a TTL,
	// or the session ends.
	Release(ctx context.Context) error
}

// Option configures how a lock is acquired.
type Option func(*Options)

// Options holds the options of one call. Implementations of LockRegistry apply each Option to the zero value.
type Options struct {
	Shared bool // set by Shared
}

// Shared acquires the lock together with all other callers that share it, and excludes callers that want it
// exclusively. First come, first served applies here too: a shared request does not pass a caller that waits for
// an exclusive lock.
func Shared() Option { return func(o *Options) { o.Shared = true } }
