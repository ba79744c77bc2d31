package election

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Term is one unbroken period of this node's leadership of one election. All methods are safe
// for concurrent use, and none of them blocks.
type Term interface {
	// Token is the fencing token: the CreateRevision of the key that leads. It only grows from
	// term to term of the election. Give it to whatever you write to outside etcd, and let that
	// refuse a smaller one than it has seen.
	Token() int64
	// AcquiredAt is when this node learned that it leads.
	AcquiredAt() time.Time
	// Context ends with the term, at the session's deadline at the latest, or when the session
	// is suspended; its cause matches ErrTermOver, session.ErrLost or ErrKeyLost. It does not
	// end while the process stands still for a moment.
	Context() context.Context
	// Valid reports whether the term may be acted on at this instant, without the network. It is
	// false for a moment after the process stood still, where etcd has to confirm the term first.
	Valid() bool
	// Guard are comparisons that hold in an etcd transaction exactly while the term stands
	// there: for transactions of your own, as in client.Txn(ctx).If(term.Guard()...).
	Guard() []clientv3.Cmp
	// Txn is a transaction that etcd commits only while this term stands. Its Commit returns an
	// error that matches ErrTermOver, and writes nothing, if the term is over; otherwise it
	// answers as an ordinary transaction does: Succeeded is about the caller's own comparisons.
	// It is for one goroutine at a time.
	Txn(ctx context.Context) clientv3.Txn
}
