package lock

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/lifecycle"
)

// The errors to test for with errors.Is.
var (
	// ErrLost: the lock was lost before it was released; see [LostError].
	ErrLost = errors.New("the lock was lost")
	// ErrReleased is the cause of a lock's context after Release.
	ErrReleased = leasequeue.ErrLeft
	// ErrKeyLost is the cause of a lock's context when somebody deleted its key out of band.
	ErrKeyLost = election.ErrKeyLost
	// ErrNotStarted: the cluster that the registry is of has not started yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStopped: the node stops, or has stopped. It is the cause of the contexts of locks that
	// are held then.
	ErrStopped = lifecycle.ErrStopped
	// ErrBadName: a name of a lock is from 1 to 512 bytes long.
	ErrBadName = lifecycle.ErrBadName
)

// LostError says why a lock was lost. It matches [ErrLost].
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

// Unwrap is the reason.
func (e *LostError) Unwrap() error { return e.Err }

// LockRegistry hands locks out. All methods are safe for concurrent use.
type LockRegistry interface {
	// Acquire blocks until the caller holds the lock, or ctx ends; it then returns ctx's
	// cause, and the caller is out of the queue, as soon as etcd answers. Who came first
	// gets the lock first. Two callers in one process exclude each other as any others do.
	// A session that is lost meanwhile only costs the place in the queue. Other errors:
	// ErrBadName, ErrNotStarted, ErrStopped, and what etcd refused for good.
	Acquire(ctx context.Context, name string, opts ...Option) (Held, error)
	// TryAcquire takes the lock if it is free and nobody waits for it, and reports whether it
	// did; if not, Held is nil. Who tries in vain counts as one who waits until it knows: of
	// two who try at the moment of a release, neither may get it. It does not wait for the
	// lock, but for etcd, and where there is no session for the next one, until ctx ends.
	// While the session may not be acted on, no lock is free; nor while a node may still count on
	// its locks whose keys etcd has deleted too early. Errors are those of Acquire.
	TryAcquire(ctx context.Context, name string, opts ...Option) (Held, bool, error)
}

// Held is a lock that is held. All methods are safe for concurrent use.
type Held interface {
	// Name is the lock's.
	Name() string
	// Token is the fencing token of this grant: it is larger than that of every grant before
	// of the same name, or for a shared lock, of every exclusive one.
	Token() int64
	// Context ends when the lock is released or lost, at the session's deadline at the latest;
	// its cause is ErrReleased, ErrStopped, ErrKeyLost or a session.LostError.
	Context() context.Context
	// Valid reports whether the lock may be acted on at this instant, without the network.
	Valid() bool
	// Guard are comparisons that hold in an etcd transaction exactly while this grant stands:
	// what is written to etcd under the lock is written under this condition, as in
	// client.Txn(ctx).If(held.Guard()...). A write without an answer may still be carried out
	// as long as the grant stands, even after a later one: a caller that cannot tell the two
	// apart releases the lock before it goes on. A lock of [Memory] has none.
	Guard() []clientv3.Cmp
	// Release ends the lock's context, gives the lock up, and blocks until that is done or
	// ctx ends; it is then done as soon as etcd answers. Releasing again is harmless. The error
	// is ctx's, or a LostError if the lock was lost before: what was done under it may have been
	// done beside another holder; or what etcd refused, as rpctypes.ErrPermissionDenied: nobody
	// else gets the lock then until etcd allows the release, which is asked for again every third
	// of a TTL, or the session ends.
	Release(ctx context.Context) error
}

// Option changes how a lock is taken.
type Option func(*Options)

// Options are what the options of one call say; a LockRegistry asks [NewOptions] for them.
type Options struct {
	Shared bool // see the option
}

// Shared takes the lock together with all others who share it, and excludes those who want it
// for themselves. First come, first served holds here too: nobody shares past a caller that
// waits for an exclusive lock.
func Shared() Option { return func(o *Options) { o.Shared = true } }

// NewOptions are the options that opts set.
func NewOptions(opts ...Option) Options {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
