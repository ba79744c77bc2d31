package leasequeue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/wait"
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
	// ErrReleased is the cause of an entry's context after Release or ReleaseAndWait.
	ErrReleased = entrystate.ErrReleased
)

// Entry represents one entry in a queue, from the request until its key is gone. All methods are safe for
// concurrent use.
type Entry struct {
	EntrySpec
	q     *Queues
	run   *sessionRun
	key   string
	queue string

	// state is the entry's present state. It is replaced under Engine.mu.
	state atomic.Pointer[entryState]

	// Guarded by Engine.mu:

	decided       chan struct{}   // closed when the entry settles; made on demand
	gone          chan struct{}   // closed when the key is deleted, or etcd refuses to delete it; made on demand
	ctx           context.Context // made on demand
	cancel        context.CancelCauseFunc
	boundContexts []*boundContext
}

// entryState is the state of an entry at one instant. It is immutable.
type entryState struct {
	entrystate.State
	period *etcdsession.Period // the validity period in which the entry was granted
}

// boundContext is a context that Within has returned and that must end with the grant.
type boundContext struct{ end context.CancelCauseFunc }

func (x *Entry) currentState() *entryState { return x.state.Load() }

// Decided returns a channel that is closed once the entry is granted, or never will be. Err tells them apart.
func (x *Entry) Decided() <-chan struct{} {
	x.q.e.mu.Lock()
	defer x.q.e.mu.Unlock()
	switch {
	case x.currentState().Decided():
		return closedChan
	case x.decided == nil:
		x.decided = make(chan struct{})
	}
	return x.decided
}

// IsDecided reports whether the channel of Decided is closed. It reads one atomic.
func (x *Entry) IsDecided() bool { return x.currentState().Decided() }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lost returns a channel that is closed when the session is lost, and the entry with it.
func (x *Entry) Lost() <-chan struct{} { return x.run.ctx.Done() }

// SessionContext returns a context that ends when Lost is closed. Until then the key may stand.
func (x *Entry) SessionContext() context.Context { return x.run.ctx }

// LeaseID returns the id of the lease that the key is attached to.
func (x *Entry) LeaseID() int64 { return int64(x.run.session.ID()) }

// Err returns the reason why a settled entry was never granted: ErrEntryLost, ErrNotFirst, or etcd's error. It returns
// nil if the entry is or was granted.
func (x *Entry) Err() error {
	now := x.currentState()
	if now.Claim == entrystate.Granted {
		return nil
	}
	return now.Err
}

// Token returns the CreateRevision of the entry's key, and 0 while it is unknown. The token of a granted entry
// is larger than those of all former holders.
func (x *Entry) Token() int64 { return x.currentState().CreateRevision }

// Context returns the context of a granted entry. It ends when the entry may no longer be acted on, at the
// session's deadline at the latest, with ErrReleased, ErrKeyLost or a session.LostError as its cause.
func (x *Entry) Context() context.Context {
	x.q.e.mu.Lock()
	made := x.ctx
	x.q.e.mu.Unlock()
	if made != nil {
		return made
	}
	var own boundContext
	var ctx context.Context
	ctx, own.end = context.WithCancelCause(x.PeriodContext())
	x.q.e.mu.Lock()
	made, over := x.ctx, x.currentState().grantEndCause()
	if made == nil {
		x.ctx, x.cancel = ctx, own.end
	}
	x.q.e.mu.Unlock()
	switch {
	case made != nil: // another caller made it meanwhile
		own.end(nil)
		return made
	case over != nil:
		own.end(over)
	}
	return ctx
}

// Within is like wait.Within of ctx and Context. It suits many calls on one entry: stop releases everything
// that it added to the entry.
func (x *Entry) Within(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := wait.MergeContextsCause(ctx, x.PeriodContext())
	u := &boundContext{end}
	x.q.e.mu.Lock()
	x.boundContexts = append(x.boundContexts, u)
	over := x.currentState().grantEndCause()
	x.q.e.mu.Unlock()
	if over != nil {
		end(over)
	}
	return ctx, func() {
		end(nil)
		x.q.e.mu.Lock()
		defer x.q.e.mu.Unlock()
		if x.boundContexts = slices.DeleteFunc(x.boundContexts,
			func(other *boundContext) bool { return other == u }); len(x.boundContexts) == 0 {
			x.boundContexts = nil
		}
	}
}

// EndCause returns the reason why a granted entry may no longer be acted on, or nil while it may. If the session
// was lost first and the entry revoked later, EndCause returns the cause of the revocation, but the cause of the
// contexts is the session's.
func (x *Entry) EndCause() error { return x.currentState().grantEndCause() }

func (s *entryState) grantEndCause() error {
	if why := s.EndCause(); why != nil {
		return why
	}
	return context.Cause(s.period.Context())
}

// Valid reports whether a granted entry may be acted on at this instant. It reads atomics and the clock, and
// takes no lock.
func (x *Entry) Valid() bool {
	now := x.currentState()
	return now.MayAct() && now.period.Valid()
}

// ValidDespitePause is like Valid, but stays true over a short pause of the process; see
// [etcdsession.Period.ValidDespitePause].
func (x *Entry) ValidDespitePause() bool {
	now := x.currentState()
	return now.MayAct() && now.period.ValidDespitePause()
}

// HasKey is like ValidDespitePause, but also true for a revoked entry: it reports whether the key must still exist.
func (x *Entry) HasKey() bool {
	now := x.currentState()
	return now.HasKey() && now.period.ValidDespitePause()
}

// PeriodContext returns the context of the validity period in which the entry was granted. Revoke does not end it.
func (x *Entry) PeriodContext() context.Context { return x.currentState().period.Context() }

// Key returns the entry's key in etcd. Its CreateRevision is the token.
func (x *Entry) Key() string { return x.key }

// Guard returns a condition that holds in a transaction if and only if the entry's key still stands.
func (x *Entry) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.Token())
}

// Revoke ends the contexts of a granted entry with cause. The key stands until the entry is abandoned.
func (x *Entry) Revoke(cause error) {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	x.applyChange(x.currentState().Revoke(cause))
}

// Release releases the entry in any state. It does not block.
func (x *Entry) Release() {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	x.applyChange(x.currentState().Release())
}

// ReleaseAndWait releases a granted entry and blocks until its key is gone, like AwaitDeletion, with the same errors.
// If the entry was lost before, the result lost holds the reason.
func (x *Entry) ReleaseAndWait(ctx context.Context) (lost, err error) {
	if now := x.currentState(); now.MayAct() && !now.period.Valid() {
		now.period.AwaitConfirmed(ctx) // asks etcd whether the entry was lost while the process was paused
	}
	lost = x.releaseGranted()
	err = x.AwaitDeletion(ctx)
	if now := x.currentState(); errors.Is(lost, lifecycle.ErrStopped) &&
		(now.Key == entrystate.Absent || now.Refused != nil) {
		lost = nil // the entry was asked to end, and did so in time
	}
	return lost, err
}

// releaseGranted releases a granted entry. It returns the reason if the entry was lost before, otherwise nil.
func (x *Entry) releaseGranted() (lost error) {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	if now := x.currentState(); now.MayAct() && !now.period.ValidDespitePause() {
		cause := context.Cause(now.period.Context())
		if cause == nil {
			cause = &session.LostError{Reason: session.ReasonExpired} // the session's own loop has not noticed yet
		}
		x.applyChange(x.currentState().MarkLapsed(cause), entrystate.Orders{})
	}
	lost = x.currentState().Err
	x.applyChange(x.currentState().Release())
	return lost
}

// AwaitDeletion blocks until the key of an abandoned entry is deleted, or goes with its session. If ctx ends first, it
// returns ctx's cause, and the key is deleted as soon as etcd answers. If etcd refuses the deletion, it returns
// etcd's error; the entry then blocks its queue until the session ends or etcd allows the deletion, which is
// retried every third of a TTL.
func (x *Entry) AwaitDeletion(ctx context.Context) error {
	select {
	case <-x.deletionDone():
		return x.currentState().Refused
	case <-x.run.ctx.Done(): // the lease ends, or has ended
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *Entry) deletionDone() <-chan struct{} {
	x.q.e.mu.Lock()
	defer x.q.e.mu.Unlock()
	switch now := x.currentState(); {
	case now.Key == entrystate.Absent || now.Refused != nil:
		return closedChan
	case x.gone == nil:
		x.gone = make(chan struct{})
	}
	return x.gone
}

// applyChange stores the entry's new state and carries out the orders. The caller holds Engine.mu.
func (x *Entry) applyChange(p entrystate.State, o entrystate.Orders) {
	x.applyInPeriod(x.currentState().period, p, o)
}

// applyInPeriod is like applyChange, for an entry that may be granted in the given validity period.
func (x *Entry) applyInPeriod(period *etcdsession.Period, p entrystate.State, o entrystate.Orders) {
	before := x.currentState()
	if o == (entrystate.Orders{}) && before.Equivalent(p) {
		return
	}
	now := &entryState{State: p, period: before.period}
	if p.Claim == entrystate.Granted && now.period == nil {
		now.period = period
	}
	x.state.Store(now)
	x.carryOutOrders(o)
}

// decideInSession is like applyChange, for a decision that depends on the state of the session.
func (x *Entry) decideInSession(decide func(entrystate.Session) (entrystate.State, entrystate.Orders)) {
	r := x.run
	period := r.session.Period()
	p, o := decide(entrystate.Session{Usable: period.Valid() && !r.session.Suspected(), Fresh: r.viewFresh()})
	x.applyInPeriod(period, p, o)
}

// carryOutOrders carries out the orders. The caller holds Engine.mu.
func (x *Entry) carryOutOrders(o entrystate.Orders) {
	r := x.run
	if o.RegisterWaiter {
		r.registerWaiter(x)
	}
	if o.UnregisterWaiter {
		r.unregisterWaiter(x)
	}
	if o.HoldBack {
		r.holdBack(x)
	}
	stops := o.StopCause != nil && (x.cancel != nil || len(x.boundContexts) > 0)
	switch {
	case stops && o.DeleteKey:
		x.endContexts()
		r.e.queueNotice(func() { r.e.withLock(x.requestDeletion) }) // after the contexts have ended
	case stops:
		x.endContexts()
	case o.DeleteKey:
		x.requestDeletion()
	}
	if o.ForgetKey {
		r.removeEntry(x)
	}
	if o.CloseDecided && x.decided != nil {
		close(x.decided)
		x.decided = nil
	}
	if o.CloseGone && x.gone != nil {
		close(x.gone)
		x.gone = nil
	}
	if o.NotifyOwner {
		r.e.queueNotice(x.Notify)
	}
}

// endContexts ends the contexts of the grant once Engine.mu is released. The caller holds Engine.mu.
func (x *Entry) endContexts() {
	ends := make([]context.CancelCauseFunc, 0, 1+len(x.boundContexts))
	if x.cancel != nil {
		ends = append(ends, x.cancel)
	}
	for _, u := range x.boundContexts {
		ends = append(ends, u.end)
	}
	x.q.e.queueNotice(func() {
		for _, end := range ends {
			end(x.currentState().EndCause()) // all end with the first reason, in whatever order the notices are delivered
		}
	})
}

// requestDeletion requests the deletion of the key. The caller holds Engine.mu.
func (x *Entry) requestDeletion() { x.run.outbox.addOp(queueOp{entry: x}) }

// keyCreated records that the key was created at revision, and whether it was first in its queue. The caller holds
// Engine.mu.
func (x *Entry) keyCreated(revision int64, first bool) {
	x.decideInSession(func(s entrystate.Session) (entrystate.State, entrystate.Orders) {
		return x.currentState().KeyCreated(revision, first, s)
	})
}

// headReached records that the entry is first in its queue. The caller holds Engine.mu.
func (x *Entry) headReached() {
	x.decideInSession(func(s entrystate.Session) (entrystate.State, entrystate.Orders) {
		return x.currentState().HeadReached(s)
	})
}

// releaseConfirmed records whether it is certain that no former holder still relies on its entry. The caller holds
// Engine.mu.
func (x *Entry) releaseConfirmed(clear bool) {
	x.decideInSession(func(s entrystate.Session) (entrystate.State, entrystate.Orders) {
		return x.currentState().ReleaseConfirmed(clear, s)
	})
}

// failGrant settles an entry that was not granted. The caller holds Engine.mu.
func (x *Entry) failGrant(err error) { x.applyChange(x.currentState().FailGrant(err)) }
