package leaderelection

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
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

// ownTerm represents one unbroken term of this node's leadership. All methods are safe for concurrent use.
type ownTerm struct {
	token      int64
	acting     bool // in fallback, by the acting key
	acquired   time.Time
	period     *etcdsession.Period
	lease      int64
	le         *LeaderElection
	ctx        context.Context
	cancel     context.CancelCauseFunc
	workCtx    context.Context // like ctx, but lasts while a leader that gives way waits for its work
	cancelWork context.CancelCauseFunc
	running    int // number of functions that run in the term; guarded by le.mu
}

// Token returns the fencing token, the CreateRevision of the leading key. It grows from term to term of the
// cluster. Pass it with each write outside etcd, and let the store refuse a token smaller than the largest it
// has seen.
func (t *ownTerm) Token() int64 { return t.token }

// Acting reports whether the term is one in fallback.
func (t *ownTerm) Acting() bool { return t.acting }

// AcquiredAt returns the time at which this node learned that it leads.
func (t *ownTerm) AcquiredAt() time.Time { return t.acquired }

// Context returns a context that ends with the term, when the session is suspended, and at its deadline at the
// latest. Its cause is an [TermOverError] or a session.LostError.
func (t *ownTerm) Context() context.Context { return t.ctx }

// Valid reports whether the term may be acted on at this instant. It needs no lock, allocation or network.
func (t *ownTerm) Valid() bool {
	return t.le.term.Load() == t && t.period.Valid()
}

// Txn returns a transaction that etcd commits only while this term stands. If the term is over, Commit writes
// nothing and returns an error that matches ErrTermOver. Otherwise it behaves like an ordinary transaction;
// Succeeded concerns the caller's own comparisons. It is not safe for concurrent use.
func (t *ownTerm) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, t.le.cfg.Client, txn.Fence{
		Guards: t.Guard(),
		CheckOver: func() error {
			// While the leader waits for its work, the key stands although the flag is down.
			if t.workCtx.Err() != nil || !t.period.ValidDespitePause() {
				return t.overError(ReasonSessionLost, nil)
			}
			return nil
		},
		RefusedError: func() error { return t.overError(ReasonKeyLost, ErrKeyLost) },
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
	defer t.leaveTerm()
	work, stop := wait.MergeContexts(ctx, t.ctx)
	defer stop()
	err = fn(work, t)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil && t.ctx.Err() != nil {
		return t.overError(ReasonSessionLost, nil)
	}
	return err
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
	t := le.tryEnterTerm()
	if t == nil {
		return ErrNotLeader
	}
	defer t.leaveTerm()
	work, stop := wait.MergeContexts(ctx, t.workCtx)
	defer stop()
	err := fn(work, t)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil && t.workCtx.Err() != nil {
		return t.overError(ReasonSessionLost, nil)
	}
	return err
}

// tryEnterTerm counts the caller as work of the present term. It returns nil if this node does not lead.
func (le *LeaderElection) tryEnterTerm() *ownTerm {
	le.mu.Lock()
	defer le.mu.Unlock()
	t := le.currentTerm()
	if t != nil {
		t.running++
	}
	return t
}

// endWorkContext ends the tail context of a term that is over, unless this node gave way and waits for work. The
// caller holds le.mu.
func (t *ownTerm) endWorkContext(over *TermOverError) {
	if t.running == 0 || over.Reason == ReasonKeyLost || over.Reason == ReasonSessionLost {
		t.cancelWork(over)
	}
}

// overError returns the error of the term. Its reason is the given one unless the term's context already has
// another.
func (t *ownTerm) overError(reason Reason, why error) *TermOverError {
	cause := context.Cause(t.ctx)
	if over, ok := errors.AsType[*TermOverError](cause); ok {
		return over
	}
	if cause != nil { // endTerm sets a TermOverError, so this is the session's end
		reason, why = ReasonSessionLost, cause
	}
	return &TermOverError{Token: t.token, Reason: reason, Err: why}
}

// enterTerm blocks until this node leads, and counts the caller as work of the term.
func (le *LeaderElection) enterTerm(ctx context.Context) (*ownTerm, error) {
	var t *ownTerm
	err := le.waitUntil(ctx, func() bool {
		if le.stopped {
			return true
		}
		if t = le.term.Load(); t == nil || !t.period.Valid() {
			t = nil
			return false
		}
		t.running++
		return true
	})
	if err == nil && t == nil {
		err = ErrStopped
	}
	return t, err
}

func (t *ownTerm) leaveTerm() {
	t.le.mu.Lock()
	t.running--
	idle := t.running == 0
	if idle && t.ctx.Err() != nil {
		t.cancelWork(context.Cause(t.ctx))
	}
	t.le.mu.Unlock()
	if idle {
		t.le.wake.Send()
	}
}
