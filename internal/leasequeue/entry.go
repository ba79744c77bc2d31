package leasequeue

import (
	"context"
	"errors"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/wait"
)

// Why an entry is not first, or not any more.
var (
	// ErrAgain: the place is lost, with the session or out of band; the one that still
	// wants it queues anew.
	ErrAgain = errors.New("the place in the queue is lost")
	// ErrTaken: who only tries does not wait.
	ErrTaken = errors.New("another one is first")
	// ErrKeyGone: the key was deleted out of band.
	ErrKeyGone = election.ErrKeyLost
	// ErrLeft is the cause of an entry's context after Leave.
	ErrLeft = errors.New("it was given up")
)

// phase is how far an entry has come.
type phase int8

const (
	asked   phase = iota // on its way to etcd
	waiting              // in the queue
	first                // it is first, or was
	over                 // without ever being first
)

// Entry is one place in a queue, from the request to the end. All methods are safe for concurrent
// use.
type Entry struct {
	Place
	run   *run
	key   string
	queue string

	mu       sync.Mutex
	settled  chan struct{} // closed when phase is first or over; made when somebody waits for that
	phase    phase
	clearing bool  // it is first, and it is being looked whether anybody counts on being so still
	cleared  bool  // nobody does
	unwanted bool  // it is to be deleted, if it ever comes to be
	leaving  bool  // its deletion is under way
	create   int64 // CreateRevision of its key
	period   *etcdsession.Period
	err      error // of over; or why it is not first any more

	ctx     context.Context // made when first asked for
	cancel  context.CancelCauseFunc
	uses    []*use
	gone    chan struct{} // closed when the key is deleted, or etcd refuses that; made by Gone
	refused error         // what etcd said last
}

// Settled is closed when the entry is first, or never will be: Err says which.
func (x *Entry) Settled() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.phase == first || x.phase == over:
		return closed
	case x.settled == nil:
		x.settled = make(chan struct{})
	}
	return x.settled
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lost is closed when the session is lost, and with it every place on it.
func (x *Entry) Lost() <-chan struct{} { return x.run.ctx.Done() }

// Session is a context that ends when Lost is closed. The key can stand for so long.
func (x *Entry) Session() context.Context { return x.run.ctx }

// Err is why a settled entry is not first, and was never: ErrAgain, ErrTaken, or what etcd
// refused; nil if it is or was.
func (x *Entry) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == first {
		return nil
	}
	return x.err
}

// Token is the CreateRevision of the key of an entry that is first, and larger than that of
// all who were before.
func (x *Entry) Token() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.create
}

// Context is that of an entry which is first: it ends when it is not any more, at the
// session's deadline at the latest, with ErrLeft, ErrKeyGone or a session.LostError.
func (x *Entry) Context() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(x.period.Context())
		if err := x.over(); err != nil {
			x.cancel(err)
		}
	}
	return x.ctx
}

// use is a context in which somebody works because the entry is first.
type use struct{ end context.CancelCauseFunc }

// Within is wait.Within of ctx and Context, for many entries: nothing of it stays with the entry
// after stop.
func (x *Entry) Within(ctx context.Context) (_ context.Context, stop func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ctx, end := wait.WithinCause(ctx, x.period.Context())
	if err := x.over(); err != nil {
		end(err)
	}
	u := &use{end}
	x.uses = append(x.uses, u)
	return ctx, func() {
		end(nil)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.uses = slices.DeleteFunc(x.uses, func(other *use) bool { return other == u }); len(x.uses) == 0 {
			x.uses = nil
		}
	}
}

// stop ends all contexts. The lock is held.
func (x *Entry) stop(cause error) {
	if x.cancel != nil {
		x.cancel(cause)
	}
	for _, u := range x.uses {
		u.end(cause)
	}
}

// Over is why an entry that came first may not be acted on any more; nil while it may. Where the
// session was lost before the entry was revoked, it is what it was revoked with, and the cause of
// its contexts the session's.
func (x *Entry) Over() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.over()
}

func (x *Entry) over() error {
	switch {
	case x.err != nil:
		return x.err
	case x.leaving:
		return ErrLeft
	}
	return context.Cause(x.period.Context())
}

// Revoke ends what is done in a place that is first, with that cause. The key stands until the
// place is abandoned.
func (x *Entry) Revoke(cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revoke(cause)
}

// revoke is Revoke under the lock, of a place that is first or was.
func (x *Entry) revoke(cause error) {
	if x.phase != first || x.err != nil || x.leaving {
		return
	}
	x.err = cause
	x.stop(cause)
	x.notify()
}

// Valid reports whether an entry that came first may be acted on at this instant.
func (x *Entry) Valid() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.valid()
}

// Stands is Valid, but for a process that stood still for a moment; see [etcdsession.Period.Stands].
func (x *Entry) Stands() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.phase == first && x.err == nil && !x.leaving && x.period.Stands()
}

// Kept is Stands, but for a place that was revoked: it reports whether its key is to stand still.
func (x *Entry) Kept() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.phase == first && !x.leaving && x.period.Stands()
}

// Period is the context of the validity period in which an entry came first: Revoke does not end it.
func (x *Entry) Period() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.period.Context()
}

func (x *Entry) valid() bool {
	return x.phase == first && x.err == nil && !x.leaving && x.period.Valid()
}

// Key is the entry's in etcd; while the entry is first, its CreateRevision is the token.
func (x *Entry) Key() string { return x.key }

// Guard holds in a transaction exactly while the entry's key stands.
func (x *Entry) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.Token())
}

// Leave gives up a place that is first, and blocks as Gone does, with its error. If the place was
// lost before it was given up, lost is why.
func (x *Entry) Leave(ctx context.Context) (lost, err error) {
	x.mu.Lock()
	if x.err == nil && !x.leaving && x.period != nil && !x.period.Valid() {
		x.mu.Unlock()
		x.period.Confirm(ctx) // whether it was lost while the process stood still
		x.mu.Lock()
	}
	if x.err == nil && !x.leaving && !x.period.Stands() {
		if x.err = context.Cause(x.period.Context()); x.err == nil {
			x.err = &session.LostError{Reason: session.ReasonExpired} // and its own loop has not looked yet
		}
	}
	lost = x.err
	x.mu.Unlock()
	x.Abandon()
	err = x.Gone(ctx)
	if !errors.Is(lost, lifecycle.ErrStopped) {
		return lost, err
	}
	// It was asked to end, and has, if it was in time.
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.gone:
		return nil, err
	default:
		return lost, err
	}
}

// Gone blocks until the key of an abandoned place is deleted, or the session is lost, and with it the
// key. It ends before with ctx's cause: the key is then deleted as soon as etcd answers; or with what
// etcd refused: the place is then in everybody's way until etcd allows it, which is asked every third
// of a TTL, or the session ends.
func (x *Entry) Gone(ctx context.Context) error {
	x.mu.Lock()
	if x.gone == nil {
		x.gone = make(chan struct{})
	}
	gone := x.gone
	x.mu.Unlock()
	select {
	case <-gone:
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.refused
	case <-x.run.ctx.Done(): // the lease ends, or has
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Abandon gives the place up, wherever it is, and does not block.
func (x *Entry) Abandon() {
	x.mu.Lock()
	x.unwanted = true
	now := x.create != 0 && !x.leaving
	if now {
		x.leaving = true
		x.stop(ErrLeft)
	}
	x.mu.Unlock()
	if now {
		x.run.leave(x)
	}
}
