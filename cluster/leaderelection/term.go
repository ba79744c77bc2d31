package leaderelection

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// Term is one unbroken period of this node's leadership. All methods are safe
// for concurrent use.
type Term struct {
	token    int64
	mode     election.Mode
	acquired time.Time
	period   *etcdsession.Period
	lease    int64
	le       *LeaderElection
	ctx      context.Context
	cancel   context.CancelCauseFunc
	tail     context.Context // as ctx, but lasts while a leader that gives way waits for its work
	cut      context.CancelCauseFunc
	work     int // functions in it; guarded by le.mu
}

// Token is the fencing token: the CreateRevision of the key that leads. It only
// grows from term to term of the cluster. Give it to whatever you write to
// outside etcd, and let that refuse a smaller one than it has seen.
func (t *Term) Token() int64 { return t.token }

// Mode says by which rule this term leads.
func (t *Term) Mode() election.Mode { return t.mode }

// AcquiredAt is when this node learned that it leads.
func (t *Term) AcquiredAt() time.Time { return t.acquired }

// Context ends with the term, at the session's deadline at the latest, or when the
// session is suspended; its cause is an [election.TermOverError] or a session.LostError.
func (t *Term) Context() context.Context { return t.ctx }

// Valid reports whether the term may be acted on at this instant, without a
// lock, an allocation or the network.
func (t *Term) Valid() bool {
	return t.le.term.Load() == t && t.period.Valid()
}

// Txn is a transaction that etcd commits only while this term stands. Its Commit
// returns an error that matches ErrTermOver, and writes nothing, if the term is
// over; otherwise it answers as an ordinary transaction does: Succeeded tells of
// the caller's own comparisons. One caller at a time.
func (t *Term) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, t.le.cfg.Client, txn.Fence{
		Guards: t.Guard(),
		Over: func() error {
			// While work is waited for, the key stands, though the flag is down.
			if t.tail.Err() != nil || !t.period.Stands() {
				return t.over(election.ReasonSessionLost, nil)
			}
			return nil
		},
		Refused: func() error { return t.over(election.ReasonKeyLost, election.ErrKeyLost) },
	})
}

// Guard holds in a transaction of etcd's exactly while this term's key stands.
func (t *Term) Guard() []clientv3.Cmp {
	return txn.Cmps(txn.TermGuards(t.le.keys, t.mode, t.lease, t.token))
}

// Lead waits until this node leads and runs fn. fn's context ends with the term,
// or with ctx; fn must return soon after, for a leader that gives way waits for
// it (up to WorkTimeout) before the next one can lead. Lead returns what fn
// returned; if that is the context's error because the term ended, an error that
// matches ErrTermOver. It does not give leadership up when fn returns (Resign
// does), and runs fn once: call it in a loop to serve every term, until ctx ends
// or the error is ErrStopped. Where fn did not run the error is one of these two.
func (le *LeaderElection) Lead(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	t, err := le.enter(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	work, stop := wait.Within(ctx, t.ctx)
	defer stop()
	err = fn(work, t)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil && t.ctx.Err() != nil {
		return t.over(election.ReasonSessionLost, nil)
	}
	return err
}

// AsLeader runs fn at once if this node leads, as work of its term that is not broken off: a leader
// that gives way (resigns, transfers, stops) waits for it, up to WorkTimeout, and until it has
// returned the term's Txn commits, though IsLeader is false. fn's context ends with ctx, with the
// session, which includes its suspension and deadline, when the leading key is lost, and when
// WorkTimeout has passed since the leader gave way. AsLeader returns what fn returned; if that is
// the context's error because the term ended, an error that matches ErrTermOver. If this node does
// not lead, the error is ErrNotLeader, and fn did not run.
func (le *LeaderElection) AsLeader(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	t := le.enterNow()
	if t == nil {
		return election.ErrNotLeader
	}
	defer t.leave()
	work, stop := wait.Within(ctx, t.tail)
	defer stop()
	err := fn(work, t)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil && t.tail.Err() != nil {
		return t.over(election.ReasonSessionLost, nil)
	}
	return err
}

// enterNow counts the caller as work of the present term; nil if there is none.
func (le *LeaderElection) enterNow() *Term {
	le.mu.Lock()
	defer le.mu.Unlock()
	t := le.Term()
	if t != nil {
		t.work++
	}
	return t
}

// tailEnds ends what goes on in a term that is over, unless this node gave way and its work is
// waited for. The lock is held.
func (t *Term) tailEnds(over *election.TermOverError) {
	if t.work == 0 || over.Reason == election.ReasonKeyLost || over.Reason == election.ReasonSessionLost {
		t.cut(over)
	}
}

// over is why t ended. Where its context does not say so yet, it is the given reason.
func (t *Term) over(reason election.Reason, why error) *election.TermOverError {
	cause := context.Cause(t.ctx)
	if over, ok := errors.AsType[*election.TermOverError](cause); ok {
		return over
	}
	if cause != nil { // only the session ends it but for endTerm
		reason, why = election.ReasonSessionLost, cause
	}
	return &election.TermOverError{Token: t.token, Reason: reason, Err: why}
}

// enter waits for a term of this node and counts the caller as its work.
func (le *LeaderElection) enter(ctx context.Context) (*Term, error) {
	var t *Term
	err := le.await(ctx, func() bool {
		if le.stopped {
			return true
		}
		if t = le.term.Load(); t == nil || !t.period.Valid() {
			t = nil
			return false
		}
		t.work++
		return true
	})
	if err == nil && t == nil {
		err = election.ErrStopped
	}
	return t, err
}

func (t *Term) leave() {
	t.le.mu.Lock()
	t.work--
	idle := t.work == 0
	if idle && t.ctx.Err() != nil {
		t.cut(context.Cause(t.ctx))
	}
	t.le.mu.Unlock()
	if idle {
		t.le.poke()
	}
}
