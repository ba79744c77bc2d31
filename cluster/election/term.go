package election

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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
