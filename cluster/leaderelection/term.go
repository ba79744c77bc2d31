package leaderelection

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state/txn"
)

// Term is one unbroken period of this node's leadership of one election. All methods are safe for concurrent use,
// and none of them blocks.
type Term interface {
	// Token returns the fencing token: the CreateRevision of the leading key. It grows from term to term of the
	// election. Pass it to every system outside of etcd that you write to; such a system should refuse a smaller
	// token than it has seen.
	Token() int64
	// AcquiredAt returns the time at which this node learned that it leads.
	AcquiredAt() time.Time
	// Context returns a context that ends with the term, at the session's deadline at the latest, or when the
	// session is suspended. Its cause matches ErrTermOver, session.ErrLost or ErrKeyLost. It does not end when
	// the process briefly stands still.
	Context() context.Context
	// Valid reports whether the caller may act on the term at this instant. It does not use the network. It is
	// briefly false after the process stood still, until etcd has confirmed the term.
	Valid() bool
	// Guard returns comparisons that hold in an etcd transaction exactly while the term lasts in etcd. Use them
	// in transactions of your own, as in client.Txn(ctx).If(term.Guard()...).
	Guard() []clientv3.Cmp
	// Txn returns a transaction that etcd commits only while this term lasts. If the term is over, Commit writes
	// nothing and returns an error that matches ErrTermOver. Otherwise Commit behaves as in an ordinary
	// transaction: Succeeded concerns the caller's own comparisons. The transaction must not be used
	// concurrently.
	Txn(ctx context.Context) clientv3.Txn
}

// ownTerm implements Term for the cluster's own election.
type ownTerm struct {
	token    int64
	acting   bool // in fallback, by the acting key
	acquired time.Time
	period   *etcdsession.Period
	lease    int64
	le       *LeaderElection
	scope    *termscope.Scope // its lock is le.mu
}

// newTerm returns a term that begins.
func (le *LeaderElection) newTerm(began candidacy.Term, lease int64, period *etcdsession.Period,
	now time.Time) *ownTerm {
	t := &ownTerm{token: began.Token, acting: began.Acting, acquired: now, period: period, lease: lease, le: le}
	t.scope = termscope.New(termscope.Owner{Lock: &le.mu, WorkTimeout: le.cfg.WorkTimeout,
		Overdue: &le.overdue, OnIdle: func() {
			le.notifyLocked() // for Withdraw: without a session there are no steps
			le.wake.Send()
		},
		OnOverdue: func(running int) {
			le.log.Warn("work of the last term goes on after its context ended; not waiting for it any longer",
				"token", t.token, "functions", running)
		},
		OverError: func(why error) error {
			return &TermOverError{Token: t.token, Reason: ReasonOf(why), Err: why}
		}}, termscope.EndOf(period.Context()), termscope.EndOf(period.Context()))
	return t
}

// Token returns the fencing token, the CreateRevision of the leading key.
func (t *ownTerm) Token() int64 { return t.token }

// Acting reports whether the term is one in fallback.
func (t *ownTerm) Acting() bool { return t.acting }

// AcquiredAt returns the time at which this node learned that it leads.
func (t *ownTerm) AcquiredAt() time.Time { return t.acquired }

// Context returns a context that ends with the term, when the session is suspended, and at its deadline at the
// latest. Its cause is an [TermOverError] or a session.LostError.
func (t *ownTerm) Context() context.Context { return t.scope.Context() }

// Valid reports whether the term may be acted on at this instant. It needs no lock, allocation or network.
func (t *ownTerm) Valid() bool {
	return t.le.term.Load() == t && t.period.Valid()
}

// Txn returns a transaction that etcd commits only while this term stands.
func (t *ownTerm) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, t.le.cfg.Client, txn.Fence{
		Guards: t.Guard(),
		CheckOver: func() error {
			// While the leader waits for its work, the key stands although the flag is down.
			if t.scope.TailEndCause() != nil || !t.period.ValidDespitePause() {
				return t.scope.OverError(session.ErrLost)
			}
			return nil
		},
		RefusedError: func() error { return t.scope.OverError(ErrKeyLost) },
	})
}

// Guard returns conditions that hold in an etcd transaction if and only if this term's key stands.
func (t *ownTerm) Guard() []clientv3.Cmp {
	return txn.Comparisons(txn.TermGuards(t.le.keys, t.acting, t.lease, t.token))
}

// Lead blocks until this node leads, runs fn, and returns fn's error. fn's context ends with the term or with
// ctx. fn must return soon after, because a leader that gives way waits for it, up to WorkTimeout, before the
// next one can lead. If fn returns its context's error because the term ended, Lead returns an error that
// matches ErrTermOver. The node keeps the leadership when fn returns (call Resign to end it). fn runs once:
// call Lead in a loop to serve every term. If fn did not run, the error is ctx's cause or ErrStopped.
func (le *LeaderElection) Lead(ctx context.Context, fn func(ctx context.Context, t Term) error) error {
	t, err := le.enterTerm(ctx)
	if err != nil {
		return err
	}
	return t.scope.RunUntilEnd(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// LeadEach runs fn once in every term of this node, until ctx ends; see termscope.LeadEach for what it returns.
func (le *LeaderElection) LeadEach(ctx context.Context, fn func(ctx context.Context, t Term) error) error {
	return termscope.LeadEach(ctx, le.Lead, fn)
}

// AsLeader runs fn at once if this node leads. If the leader gives way meanwhile (it resigns, transfers or
// stops), it waits for fn, up to WorkTimeout, instead of cutting it off. Until fn has returned the term's Txn
// still commits, though IsLeader is false. fn's context ends with ctx, with the session (also by its suspension
// or deadline), when the leading key is lost, and when WorkTimeout has passed since the leader gave way.
// AsLeader returns fn's error. If that is the context's error because the term ended, it returns an error that
// matches ErrTermOver. If this node does not lead, it returns ErrNotLeader and does not run fn.
func (le *LeaderElection) AsLeader(ctx context.Context, fn func(ctx context.Context, t Term) error) error {
	le.mu.Lock()
	t := le.tryEnterTerm()
	le.mu.Unlock()
	if t == nil {
		return ErrNotLeader
	}
	return t.scope.RunIntoTail(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

// tryEnterTerm counts the caller as work of the present term. It returns nil if this node does not lead. The caller
// holds le.mu.
func (le *LeaderElection) tryEnterTerm() *ownTerm {
	if t := le.currentTerm(); t != nil && t.scope.Enter() {
		return t
	}
	return nil
}

// enterTerm blocks until this node leads, and counts the caller as work of the term.
func (le *LeaderElection) enterTerm(ctx context.Context) (*ownTerm, error) {
	var t *ownTerm
	err := le.waitUntil(ctx, func() bool {
		if !le.stopped {
			t = le.tryEnterTerm()
		}
		return le.stopped || t != nil
	})
	if err == nil && t == nil {
		err = ErrStopped
	}
	return t, err
}
