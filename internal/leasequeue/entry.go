package leasequeue

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/entrystate"
)

// Reasons for which an entry is not granted, or no longer.
var (
	// ErrEntryLost is returned when the entry is lost with its session or by an out-of-band change. A caller that
	// still wants one must enter again.
	ErrEntryLost = entrystate.ErrEntryLost
	// ErrNotFirst is returned when an entry with Try is not first in its queue.
	ErrNotFirst = entrystate.ErrNotFirst
	// ErrKeyLost reports that the key was deleted out of band.
	ErrKeyLost = entrystate.ErrKeyLost
	// ErrReleased is the cause of a grant's context after Release or ReleaseAndWait.
	ErrReleased = entrystate.ErrReleased
)

// Entry represents one entry in a queue, from the request until its key is gone. A caller waits for its outcome,
// which may be a [Grant]. All methods are safe for concurrent use.
type Entry struct {
	EntrySpec
	q     *Queues
	run   *sessionRun
	key   string
	queue string

	state atomic.Pointer[entrystate.State] // the present state; replaced under Engine.mu
	grant *Grant                           // set before state shows that the entry is granted

	// Guarded by Engine.mu:

	decided latch // closed when the entry is granted or never will be
	gone    latch // closed when the key is deleted, or etcd refuses to delete it
}

// Decided returns a channel that is closed once Outcome returns the outcome.
func (x *Entry) Decided() <-chan struct{} {
	x.q.e.mu.Lock()
	defer x.q.e.mu.Unlock()
	return x.decided.channel(x.state.Load().Decided())
}

// Outcome returns the grant, or the reason why the entry was never granted: ErrEntryLost, ErrNotFirst,
// lifecycle.ErrStopped, or etcd's error. Both are nil until the entry is decided. It reads one atomic.
func (x *Entry) Outcome() (*Grant, error) {
	switch now := x.state.Load(); now.Claim {
	case entrystate.Granted:
		return x.grant, nil
	case entrystate.NotGranted:
		return nil, now.Err
	}
	return nil, nil
}

// SessionContext returns a context that ends when the session is lost, and the entry with it. Until then the key
// may stand.
func (x *Entry) SessionContext() context.Context { return x.run.ctx }

// Key returns the entry's key in etcd. Its CreateRevision is the token.
func (x *Entry) Key() string { return x.key }

// Token returns the CreateRevision of the entry's key, and 0 while it is unknown. The token of a granted entry
// is larger than those of all former holders.
func (x *Entry) Token() int64 { return x.state.Load().CreateRevision }

// Guard returns a condition that holds in a transaction if and only if the entry's key still stands.
func (x *Entry) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.Token())
}

// Release releases the entry, granted or not. It does not block.
func (x *Entry) Release() {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	x.applyChange(x.state.Load().Release())
}

// AwaitDeletion blocks until the key of a released entry is deleted, or goes with its session. If ctx ends first, it
// returns ctx's cause, and the key is deleted as soon as etcd answers. If etcd refuses the deletion, it returns
// etcd's error; the entry then blocks its queue until the session ends or etcd allows the deletion, which is
// retried every third of a TTL.
func (x *Entry) AwaitDeletion(ctx context.Context) error {
	x.q.e.mu.Lock()
	gone := x.gone.channel(x.state.Load().DeletionAnswered())
	x.q.e.mu.Unlock()
	select {
	case <-gone:
		return x.state.Load().Refused
	case <-x.run.ctx.Done(): // the lease ends, or has ended
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
