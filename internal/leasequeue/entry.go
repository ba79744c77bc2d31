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

// Why an entry is not first, or not any more.
var (
	// ErrAgain: the place is lost, with the session or out of band; the one that still
	// wants it queues anew.
	ErrAgain = entrystate.ErrAgain
	// ErrTaken: who only tries does not wait.
	ErrTaken = entrystate.ErrTaken
	// ErrKeyGone: the key was deleted out of band.
	ErrKeyGone = entrystate.ErrKeyGone
	// ErrLeft is the cause of an entry's context after Leave.
	ErrLeft = entrystate.ErrLeft
)

// Entry is one place in a queue, from the request to the end. All methods are safe for concurrent
// use.
type Entry struct {
	Want
	q     *Queues
	run   *run
	key   string
	queue string

	// snapshot is what it is. It is replaced with the engine's lock held.
	snapshot atomic.Pointer[snapshot]

	// With the engine's lock held:

	settled chan struct{}   // closed when it settles; made when somebody waits for that
	gone    chan struct{}   // closed when the key is deleted, or etcd refuses that; made when somebody waits for it
	ctx     context.Context // made when first asked for
	cancel  context.CancelCauseFunc
	uses    []*use
}

// snapshot is what an entry is at a time. It is never changed.
type snapshot struct {
	entrystate.Place
	period *etcdsession.Period // in which it came first
}

// use is a context in which somebody works because the entry is first.
type use struct{ end context.CancelCauseFunc }

func (x *Entry) now() *snapshot { return x.snapshot.Load() }

// Settled is closed when the entry is first, or never will be: Err says which.
func (x *Entry) Settled() <-chan struct{} {
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

// IsSettled reports whether Settled is closed. It reads an atomic alone.
func (x *Entry) IsSettled() bool { return x.now().Settled() }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lost is closed when the session is lost, and with it every place on it.
func (x *Entry) Lost() <-chan struct{} { return x.run.ctx.Done() }

// Session is a context that ends when Lost is closed. The key can stand for so long.
func (x *Entry) Session() context.Context { return x.run.ctx }

// Lease is the id of the lease that its key is on.
func (x *Entry) Lease() int64 { return int64(x.run.s.ID()) }

// Err is why a settled entry is not first, and was never: ErrAgain, ErrTaken, or what etcd
// refused; nil if it is or was.
func (x *Entry) Err() error {
	now := x.now()
	if now.Claim == entrystate.First {
		return nil
	}
	return now.Err
}

// Token is the CreateRevision of the key of an entry that is first, and larger than that of
// all who were before.
func (x *Entry) Token() int64 { return x.now().Create }

// Context is that of an entry which is first: it ends when it is not any more, at the
// session's deadline at the latest, with ErrLeft, ErrKeyGone or a session.LostError.
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
	case made != nil: // by another caller, meanwhile
		own.end(nil)
		return made
	case over != nil:
		own.end(over)
	}
	return ctx
}

// Within is wait.Within of ctx and Context, for many entries: nothing of it stays with the entry
// after stop.
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

// Over is why an entry that came first may not be acted on any more; nil while it may. Where the
// session was lost before the entry was revoked, it is what it was revoked with, and the cause of
// its contexts the session's.
func (x *Entry) Over() error { return x.now().over() }

func (s *snapshot) over() error {
	if why := s.Why(); why != nil {
		return why
	}
	return context.Cause(s.period.Context())
}

// Valid reports whether an entry that came first may be acted on at this instant. It reads atomics and the clock
// alone.
func (x *Entry) Valid() bool {
	now := x.now()
	return now.MayAct() && now.period.Valid()
}

// Stands is Valid, but for a process that stood still for a moment; see [etcdsession.Period.Stands].
func (x *Entry) Stands() bool {
	now := x.now()
	return now.MayAct() && now.period.Stands()
}

// Kept is Stands, but for a place that was revoked: it reports whether its key is to stand still.
func (x *Entry) Kept() bool {
	now := x.now()
	return now.Kept() && now.period.Stands()
}

// Period is the context of the validity period in which an entry came first: Revoke does not end it.
func (x *Entry) Period() context.Context { return x.now().period.Context() }

// Key is the entry's in etcd; while the entry is first, its CreateRevision is the token.
func (x *Entry) Key() string { return x.key }

// Guard holds in a transaction exactly while the entry's key stands.
func (x *Entry) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.Token())
}

// Revoke ends what is done in a place that is first, with that cause. The key stands until the
// place is abandoned.
func (x *Entry) Revoke(cause error) {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	x.turn(x.now().Revoke(cause))
}

// Abandon gives the place up, wherever it is, and does not block.
func (x *Entry) Abandon() {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	x.turn(x.now().Abandon())
}

// Leave gives up a place that is first, and blocks as Gone does, with its error. If the place was
// lost before it was given up, lost is why.
func (x *Entry) Leave(ctx context.Context) (lost, err error) {
	if now := x.now(); now.MayAct() && !now.period.Valid() {
		now.period.Confirm(ctx) // whether it was lost while the process stood still
	}
	lost = x.leave()
	err = x.Gone(ctx)
	if now := x.now(); errors.Is(lost, lifecycle.ErrStopped) && (now.Key == entrystate.Gone || now.Refused != nil) {
		lost = nil // it was asked to end, and has, in time
	}
	return lost, err
}

// leave gives a place that is first up, and says how it was lost before; nil: it was not.
func (x *Entry) leave() (lost error) {
	x.q.e.mu.Lock()
	defer x.q.e.unlock()
	if now := x.now(); now.MayAct() && !now.period.Stands() {
		cause := context.Cause(now.period.Context())
		if cause == nil {
			cause = &session.LostError{Reason: session.ReasonExpired} // and its own loop has not looked yet
		}
		x.turn(x.now().Lapse(cause), entrystate.Orders{})
	}
	lost = x.now().Err
	x.turn(x.now().Abandon())
	return lost
}

// Gone blocks until the key of an abandoned place is deleted, or the session is lost, and with it the
// key. It ends before with ctx's cause: the key is then deleted as soon as etcd answers; or with what
// etcd refused: the place is then in everybody's way until etcd allows it, which is asked every third
// of a TTL, or the session ends.
func (x *Entry) Gone(ctx context.Context) error {
	select {
	case <-x.whenGone():
		return x.now().Refused
	case <-x.run.ctx.Done(): // the lease ends, or has
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

// turn has an entry be what it is now, and carries out what that takes. The lock is held.
func (x *Entry) turn(p entrystate.Place, o entrystate.Orders) { x.turnIn(x.now().period, p, o) }

// turnIn is turn of one that may come first, in that validity period.
func (x *Entry) turnIn(period *etcdsession.Period, p entrystate.Place, o entrystate.Orders) {
	before := x.now()
	if o == (entrystate.Orders{}) && before.Same(p) {
		return
	}
	now := &snapshot{Place: p, period: before.period}
	if p.Claim == entrystate.First && now.period == nil {
		now.period = period
	}
	x.snapshot.Store(now)
	x.carryOut(o)
}

// inSession is turn of one that may come first, if its session can be acted on.
func (x *Entry) inSession(decide func(entrystate.Session) (entrystate.Place, entrystate.Orders)) {
	r := x.run
	period := r.s.Period()
	p, o := decide(entrystate.Session{Usable: period.Valid() && !r.s.Suspected(), Fresh: r.fresh()})
	x.turnIn(period, p, o)
}

// carryOut does what is ordered. The lock is held.
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
		r.e.later(func() { r.e.with(x.delete) }) // only then
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

// stop ends what is done because the entry is first, when the lock was released. The lock is held.
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
			end(x.now().Why()) // the first reason, in whatever order such notices are delivered
		}
	})
}

// delete has the key deleted. The lock is held.
func (x *Entry) delete() { x.run.outbox.add(op{entry: x}) }

// created: its key was, at that revision, first in its queue or not. The lock is held.
func (x *Entry) created(revision int64, first bool) {
	x.inSession(func(s entrystate.Session) (entrystate.Place, entrystate.Orders) {
		return x.now().Created(revision, first, s)
	})
}

// atHead: it is the first in its queue. The lock is held.
func (x *Entry) atHead() {
	x.inSession(func(s entrystate.Session) (entrystate.Place, entrystate.Orders) { return x.now().AtHead(s) })
}

// confirmed: nobody counts on being first still who was before it; or somebody may. The lock is held.
func (x *Entry) confirmed(clear bool) {
	x.inSession(func(s entrystate.Session) (entrystate.Place, entrystate.Orders) { return x.now().Confirmed(clear, s) })
}

// end settles an entry that is not first. The lock is held.
func (x *Entry) end(err error) { x.turn(x.now().End(err)) }
