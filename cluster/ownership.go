package cluster

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state/txn"
)

// Ownership is the ownership of one shard by this node under one epoch, for writes to etcd. All methods are safe for
// concurrent use, and none blocks.
type Ownership struct {
	shards *Shards
	number int
	epoch  int64
}

// Ownership returns the ownership of the shard of that number under that epoch, as passed to OnAcquire, Run and the
// functions in Serve and Hold. It need not last any more.
func (h *Shards) Ownership(number int, epoch int64) *Ownership { return &Ownership{h, number, epoch} }

// Guard returns comparisons that hold in an etcd transaction only while this node owns the shard under the epoch, from
// OnAcquire until OnRelease has returned. Use them in transactions of your own, as in
// client.Txn(ctx).If(owned.Guard()...). They compare the whole shard map and everything that this node has released.
// They therefore also fail once after a rebalance that left this shard alone; call Guard again while Valid.
func (o *Ownership) Guard() []clientv3.Cmp {
	if s, err := o.shards.shardsFor(o.number); err == nil {
		if guard, err := s.Guard(o.number, o.epoch); err == nil {
			return guard
		}
	}
	never := clientv3.Compare(clientv3.CreateRevision(o.shards.c.keys.ShardMap()), "=", -1)
	return []clientv3.Cmp{never}
}

// Valid reports whether this node owns the shard under the epoch at this instant. It does not use the network. After a
// pause of the process it is false until etcd has confirmed the session.
func (o *Ownership) Valid() bool {
	s, err := o.shards.shardsFor(o.number)
	return err == nil && s.Owns(o.number, o.epoch)
}

// Txn returns a transaction that etcd commits only while this node owns the shard under the epoch, also after a
// rebalance that leaves the shard alone. If it does not, Commit writes nothing and returns a shard.NotOwnerError; on a
// node that does not run, ErrNotStarted or ErrStopped. Otherwise Commit behaves as in an ordinary transaction:
// Succeeded concerns the caller's own comparisons. The transaction must not be used concurrently.
func (o *Ownership) Txn(ctx context.Context) clientv3.Txn {
	s, err := o.shards.shardsFor(o.number)
	if err != nil {
		return txn.Failed(err)
	}
	return s.Txn(ctx, o.number, o.epoch)
}
