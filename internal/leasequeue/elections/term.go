package elections

import (
	"cmp"
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/state/txn"
)

// Term represents one unbroken term of this node's leadership in one election. It implements leaderelection.Term, and
// Key.
type Term struct {
	e          *Election
	grant      *leasequeue.Grant
	token      int64
	acquiredAt time.Time
	scope      *termscope.Scope // its lock is Elections.mu
}

// Token returns the fencing token.
func (t *Term) Token() int64 { return t.token }

// Context returns a context that ends with the term, at the session's deadline at the latest. Its cause is an
// [leaderelection.TermOverError], or only its reason if that is a session.LostError or [leaderelection.ErrKeyLost].
func (t *Term) Context() context.Context { return t.scope.Context() }

// Valid reports whether the term may be acted on at this instant. It needs no network.
func (t *Term) Valid() bool { return t.e.term.Load() == t && t.grant.Valid() }

// Key returns the term's key in etcd. While the term stands there, the key's CreateRevision is the token.
// Programs that cannot use Guard compare that.
func (t *Term) Key() string { return t.grant.Key() }

// AcquiredAt returns the time at which this node learned that it leads.
func (t *Term) AcquiredAt() time.Time { return t.acquiredAt }

// Guard returns conditions that hold in an etcd transaction if and only if the term stands in etcd.
func (t *Term) Guard() []clientv3.Cmp { return []clientv3.Cmp{t.grant.Guard()} }

// Txn returns a transaction that etcd commits only while this term stands.
func (t *Term) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, t.e.elections.cfg.Queues.Client(), txn.Fence{
		Guards: t.Guard(),
		CheckOver: func() error {
			// While the leader waits for its work, the key stands although the flag is down.
			if t.scope.TailEndCause() != nil || !t.grant.Period().ValidDespitePause() {
				return t.scope.OverError(cmp.Or(t.grant.EndCause(), session.ErrLost))
			}
			return nil
		},
		RefusedError: func() error { return t.scope.OverError(leaderelection.ErrKeyLost) },
	})
}
