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

// Term represents one unbroken term of this node's leadership in one election. All methods are safe for
// concurrent use.
type Term struct {
	e          *Election
	grant      *leasequeue.Grant
	token      int64
	acquiredAt time.Time
	scope      *termscope.Scope // its lock is Elections.mu
}

// newTerm returns the term of a grant.
func (e *Election) newTerm(grant *leasequeue.Grant) *Term {
	t := &Term{e: e, grant: grant, token: grant.Token(), acquiredAt: time.Now()}
	t.scope = termscope.New(termscope.Owner{Lock: &e.elections.mu, WorkTimeout: e.elections.cfg.WorkTimeout,
		OnIdle: func() { e.elections.markDirty(e) },
		OnOverdue: func(int) {
			e.elections.cfg.Logger.Warn("functions in a term that is over go on; not waiting for them any longer",
				"election", e.name, "token", t.token)
		},
		OverError: func(why error) error { return e.termOverError(t.token, why) },
	}, grant.Context(), grant.Period().Context())
	return t
}

// Token returns the fencing token. It grows from term to term of the election. Pass it with each write outside
// etcd, and let the store refuse a token smaller than the largest it has seen.
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

// Txn returns a transaction that etcd commits only while this term stands. If the term is over, Commit writes
// nothing and returns an error that matches ErrTermOver. Otherwise it behaves like an ordinary transaction. It
// is not safe for concurrent use.
func (t *Term) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, t.e.elections.cfg.Queues.Client(), txn.Fence{
		Guards: t.Guard(),
		CheckOver: func() error {
			// While the leader waits for its work, the key stands although the flag is down.
			if t.scope.Tail().Err() != nil || !t.grant.Period().ValidDespitePause() {
				return t.scope.OverError(cmp.Or(t.grant.EndCause(), session.ErrLost))
			}
			return nil
		},
		RefusedError: func() error { return t.scope.OverError(leaderelection.ErrKeyLost) },
	})
}
