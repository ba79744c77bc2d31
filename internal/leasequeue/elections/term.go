package elections

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state/txn"
)

// Term is one unbroken period of this node's leadership in one election. All methods are safe
// for concurrent use.
type Term struct {
	e        *Election
	place    *leasequeue.Entry
	token    int64
	acquired time.Time
	tail     context.Context // lasts while a leader that gives way waits for its work
	cut      context.CancelCauseFunc
	work     int // functions in it; guarded by the lock of all
}

// Token is the fencing token: it only grows from term to term of the election. Give it to
// whatever you write to outside etcd, and let that refuse a smaller one than it has seen.
func (t *Term) Token() int64 { return t.token }

// Context ends with the term, at the session's deadline at the latest; its cause is a
// [election.TermOverError], or just its reason where that is a session.LostError or [election.ErrKeyLost].
func (t *Term) Context() context.Context { return t.place.Context() }

// Valid reports whether the term may be acted on at this instant, without the network.
func (t *Term) Valid() bool { return t.e.term.Load() == t && t.place.Valid() }

// Key is the key in etcd that the term stands on: its CreateRevision is the token while the
// term stands there. Programs that cannot have Guard compare that.
func (t *Term) Key() string { return t.place.Key() }

// AcquiredAt is when this node learned that it leads.
func (t *Term) AcquiredAt() time.Time { return t.acquired }

// Guard holds in a transaction of etcd's exactly while the term stands there.
func (t *Term) Guard() []clientv3.Cmp { return []clientv3.Cmp{t.place.Guard()} }

// Txn is a transaction that etcd commits only while this term stands. Its Commit returns an
// error that matches ErrTermOver, and writes nothing, if the term is over; otherwise it
// answers as an ordinary transaction does. One caller at a time.
func (t *Term) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, t.e.all.cfg.Queues.Client(), txn.Fence{
		Guards: t.Guard(),
		Over: func() error {
			// While work is waited for, the key stands, though the flag is down.
			if t.tail.Err() != nil || !t.place.Kept() {
				return t.over(session.ErrLost)
			}
			return nil
		},
		Refused: func() error { return t.over(election.ErrKeyLost) },
	})
}

// over is why t ended: why, unless its place in the queue says something else already.
func (t *Term) over(why error) *election.TermOverError {
	if cause := t.place.Over(); cause != nil {
		why = cause
	}
	if over, ok := errors.AsType[*election.TermOverError](why); ok {
		return over
	}
	return t.e.termOver(t.token, why)
}
