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
	// ErrAgain is returned when the entry is lost with its session or by an out-of-band change. A caller that
	// still wants one must enter again.
	ErrAgain = entrystate.ErrAgain
	// ErrTaken is returned when an entry with Try is not first in its queue.
	ErrTaken = entrystate.ErrTaken
	// ErrKeyGone reports that the key was deleted out of band.
	ErrKeyGone = entrystate.ErrKeyGone
	// ErrLeft is the cause of an entry's context after Abandon or Leave.
	ErrLeft = entrystate.ErrLeft
)

// Entry represents one entry in a queue, from the request until its key is gone. All methods are safe for
// concurrent use.
type Entry struct {
	Want
	q     *Queues
	run   *run
	key   string
	queue string

	// snapshot is the entry's present state. It is replaced under Engine.mu.
	snapshot atomic.Pointer[snapshot]

	// Guarded by Engine.mu:

	settled chan struct{}   // closed when the entry settles; made on demand
	gone    chan struct{}   // closed when the key is deleted, or etcd refuses to delete it; made on demand
	ctx     context.Context // made on demand
	cancel  context.CancelCauseFunc
	uses    []*use
}

// snapshot is the state of an entry at one instant. It is immutable.
type snapshot struct {
	entrystate.State
	period *etcdsession.Period // the validity period in which the entry was granted
}

// use is a context that Within has returned and that must end with the grant.
type use struct{ end context.CancelCauseFunc }

func (x *Entry) now() *snapshot { return x.snapshot.Load() }

// Decided returns a channel that is closed once the entry is granted, or never will be. Err tells them apart.
func (x *Entry) Decided() <-chan struct{} {
	x.q.e.mu.Lock()
	defer x.q.e.mu.Unlock()
	switch {
	case x.now().Settled():
		return closed
	case x.settled == nil:
		x.settled = make(chan struct{})
	}
	return x.settled
}

// IsSettled reports whether the channel of Decided is closed. It reads one atomic.
func (x *Entry) IsSettled() bool { return x.now().Settled() }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lost returns a channel that is closed when the session is lost, and the entry with it.
func (x *Entry) Lost() <-chan struct{} { return x.run.ctx.Done() }

// Session returns a context that ends when Lost is closed. Until then the key may stand.
func (x *Entry) Session() context.Context { return x.run.ctx }

// Lease returns the id of the lease that the key is attached to.
func (x *Entry) Lease() int64 { return int64(x.run.s.ID()) }

// Err returns the reason why a settled entry was never granted: ErrAgain, ErrTaken, or etcd's error. It returns
// nil if the entry is or was granted.
func (x *Entry) Err() error {
	now := x.now()
	if now.Claim == entrystate.First {
		return nil
	}
	return now.Err
}

// Token returns the CreateRevision of the entry's key, and 0 while it is unknown. The token of a granted entry
// is larger than those of all former holders.
func (x *Entry) Token() int64 { return x.now().Create }

// Context returns the context of a granted entry. It ends when the entry may no longer be acted on, at the
// session's deadline at the latest, with ErrLeft, ErrKeyGone or a session.LostError as its cause.
func (x *Entry) Context() context.Context {
	x.q.e.mu.Lock()
	made := x.ctx
	x.q.e.mu.Unlock()
	if made != nil {
		return made
	}
	var own use
	var ctx context.Context
	ctx, own.end = context.WithCancelCause(x.Period())
	x.q.e.mu.Lock()
	made, over := x.ctx, x.now().over()
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
	ctx, end := wait.WithinCause(ctx, x.Period())
	u := &use{end}
	x.q.e.mu.Lock()
	x.uses = append(x.uses, u)
	over := x.now().over()
	x.q.e.mu.Unlock()
	if over != nil {
		end(over)
	}
	return ctx, func() {
		end(nil)
		x.q.e.mu.Lock()
		defer x.q.e.mu.Unlock()
		if x.uses = slices.DeleteFunc(x.uses, func(other *use) bool { return other == u }); len(x.uses) == 0 {
			x.uses = nil
		}
	}
}

// Over returns the reason why a granted entry may no longer be acted on, or nil while it may. If the session
// was lost first and the entry revoked later, Over returns the cause of the revocation, but the cause of the
// contexts is the session's.
func (x *Entry) Over() error { return x.now().over() }

func (s *snapshot) over() error {
	if why := s.Why(); why != nil {
		return why
	}
	return context.Cause(s.period.Context())
}

// Valid reports whether a granted entry may be acted on at this instant. It reads atomics and the clock, and
// takes no lock.
func (x *Entry) Valid() bool {
	now := x.now()
	return now.MayAct() && now.period.Valid()
}

// Stands is like Valid, but stays true over a short pause of the process; see [etcdsession.Period.Stands].
func (x *Entry) Stands() bool {
	now := x.now()
	return now.MayAct() && now.period.Stands()
}

// HasKey is like Stands, but also true for a revoked entry: it reports whether the key must still exist.
func (x *Entry) HasKey() bool {
	now := x.now()
	return now.Kept() && now.period.Stands()
}

// Period returns the context of the validity period in which the entry was granted. Revoke does not end it.
func (x *Entry) Period() context.Context { return x.now().period.Context() }

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
	x.turn(x.now().Revoke(cause))
}

// Abandon releases the entry in any state. It does not block.
func (x *Entry) Abandon() {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	x.turn(x.now().Abandon())
}

// Leave releases a granted entry and blocks until its key is gone, like Gone, with the same errors. If the
// entry was lost before, the result lost holds the reason.
func (x *Entry) Leave(ctx context.Context) (lost, err error) {
	if now := x.now(); now.MayAct() && !now.period.Valid() {
		now.period.Confirm(ctx) // asks etcd whether the entry was lost while the process was paused
	}
	lost = x.leave()
	err = x.Gone(ctx)
	if now := x.now(); errors.Is(lost, lifecycle.ErrStopped) && (now.Key == entrystate.Gone || now.Refused != nil) {
		lost = nil // the entry was asked to end, and did so in time
	}
	return lost, err
}

// leave releases a granted entry. It returns the reason if the entry was lost before, otherwise nil.
func (x *Entry) leave() (lost error) {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	if now := x.now(); now.MayAct() && !now.period.Stands() {
		cause := context.Cause(now.period.Context())
		if cause == nil {
			cause = &session.LostError{Reason: session.ReasonExpired} // the session's own loop has not noticed yet
		}
		x.turn(x.now().Lapse(cause), entrystate.Orders{})
	}
	lost = x.now().Err
	x.turn(x.now().Abandon())
	return lost
}

// Gone blocks until the key of an abandoned entry is deleted, or goes with its session. If ctx ends first, it
// returns ctx's cause, and the key is deleted as soon as etcd answers. If etcd refuses the deletion, it returns
// etcd's error; the entry then blocks its queue until the session ends or etcd allows the deletion, which is
// retried every third of a TTL.
func (x *Entry) Gone(ctx context.Context) error {
	select {
	case <-x.whenGone():
		return x.now().Refused
	case <-x.run.ctx.Done(): // the lease ends, or has ended
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *Entry) whenGone() <-chan struct{} {
	x.q.e.mu.Lock()
	defer x.q.e.mu.Unlock()
	switch now := x.now(); {
	case now.Key == entrystate.Gone || now.Refused != nil:
		return closed
	case x.gone == nil:
		x.gone = make(chan struct{})
	}
	return x.gone
}

// turn stores the entry's new state and carries out the orders. The caller holds Engine.mu.
func (x *Entry) turn(p entrystate.State, o entrystate.Orders) { x.turnIn(x.now().period, p, o) }

// turnIn is like turn, for an entry that may be granted in the given validity period.
func (x *Entry) turnIn(period *etcdsession.Period, p entrystate.State, o entrystate.Orders) {
	before := x.now()
	if o == (entrystate.Orders{}) && before.Same(p) {
		return
	}
	now := &snapshot{State: p, period: before.period}
	if p.Claim == entrystate.First && now.period == nil {
		now.period = period
	}
	x.snapshot.Store(now)
	x.carryOut(o)
}

// inSession is like turn, for a decision that depends on the state of the session.
func (x *Entry) inSession(decide func(entrystate.Session) (entrystate.State, entrystate.Orders)) {
	r := x.run
	period := r.s.Period()
	p, o := decide(entrystate.Session{Usable: period.Valid() && !r.s.Suspected(), Fresh: r.fresh()})
	x.turnIn(period, p, o)
}

// carryOut carries out the orders. The caller holds Engine.mu.
func (x *Entry) carryOut(o entrystate.Orders) {
	r := x.run
	if o.List {
		r.list(x)
	}
	if o.Unlist {
		r.unlist(x)
	}
	if o.Clear {
		r.clear(x)
	}
	stops := o.Stop != nil && (x.cancel != nil || len(x.uses) > 0)
	switch {
	case stops && o.Delete:
		x.stop()
		r.e.later(func() { r.e.with(x.delete) }) // after the contexts have ended
	case stops:
		x.stop()
	case o.Delete:
		x.delete()
	}
	if o.Forget {
		r.forget(x)
	}
	if o.Settle && x.settled != nil {
		close(x.settled)
		x.settled = nil
	}
	if o.Gone && x.gone != nil {
		close(x.gone)
		x.gone = nil
	}
	if o.Notify {
		r.e.later(x.Notify)
	}
}

// stop ends the contexts of the grant once Engine.mu is released. The caller holds Engine.mu.
func (x *Entry) stop() {
	ends := make([]context.CancelCauseFunc, 0, 1+len(x.uses))
	if x.cancel != nil {
		ends = append(ends, x.cancel)
	}
	for _, u := range x.uses {
		ends = append(ends, u.end)
	}
	x.q.e.later(func() {
		for _, end := range ends {
			end(x.now().Why()) // all end with the first reason, in whatever order the notices are delivered
		}
	})
}

// delete requests the deletion of the key. The caller holds Engine.mu.
func (x *Entry) delete() { x.run.outbox.add(op{entry: x}) }

// created records that the key was created at revision, and whether it was first in its queue. The caller holds
// Engine.mu.
func (x *Entry) created(revision int64, first bool) {
	x.inSession(func(s entrystate.Session) (entrystate.State, entrystate.Orders) {
		return x.now().Created(revision, first, s)
	})
}

// atHead records that the entry is first in its queue. The caller holds Engine.mu.
func (x *Entry) atHead() {
	x.inSession(func(s entrystate.Session) (entrystate.State, entrystate.Orders) { return x.now().AtHead(s) })
}

// confirmed records whether it is certain that no former holder still relies on its entry. The caller holds
// Engine.mu.
func (x *Entry) confirmed(clear bool) {
	x.inSession(func(s entrystate.Session) (entrystate.State, entrystate.Orders) { return x.now().Confirmed(clear, s) })
}

// end settles an entry that was not granted. The caller holds Engine.mu.
func (x *Entry) end(err error) { x.turn(x.now().End(err)) }
