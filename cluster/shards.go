package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
)

// ErrShardingOff: this node takes no part in the shards; see Sharding.Off.
var ErrShardingOff = lifecycle.ErrShardingOff

// Shards is this node's part in the shards: who owns a key, and what runs only on its owner. All
// methods are safe for concurrent use. Where this node cannot say, because it is not started, has
// stopped or takes no part in the shards, the error is ErrNotStarted, ErrStopped or ErrShardingOff,
// and methods without an error answer that nobody owns anything.
type Shards struct{ c *Cluster }

// Shards is this node's part in the shards. It is never nil.
func (c *Cluster) Shards() *Shards { return &c.shards }

// running is the part of a node that runs.
func (h *Shards) running() (*consensusmanager.Shards, error) {
	if h.c.cfg.Sharding.Off {
		return nil, ErrShardingOff
	}
	p, err := h.c.running()
	if err != nil {
		return nil, err
	}
	return p.manager.Shards(), nil
}

// Count is how many shards there are by this node's configuration.
func (h *Shards) Count() int { return h.c.cfg.Sharding.Shards }

// Shard is the shard of a key, from 0 to Count less one.
func (h *Shards) Shard(key string) int { return shard.Of(key, h.Count()) }

// Owner is the node that owns a key's shard as far as this node knows; false if nobody does. It
// does not block. The owner may not serve the shard yet, or not any more: only it knows.
func (h *Shards) Owner(key string) (shard.Owner, bool) { return h.OwnerOf(h.Shard(key)) }

// OwnerOf is Owner by the shard's number.
func (h *Shards) OwnerOf(number int) (shard.Owner, bool) {
	s, err := h.part(number)
	if err != nil {
		return shard.Owner{}, false
	}
	owner, epoch, ok := s.OwnerOf(number)
	if !ok {
		return shard.Owner{}, false
	}
	return shard.Owner{Address: owner.Address, Incarnation: owner.Incarnation, Epoch: epoch}, true
}

// WatchOwner delivers the owner of a key's shard as far as this node knows, and then every change of
// it; the zero Owner says that nobody does. A slow receiver misses what was overtaken and always gets
// the newest. The channel closes when ctx ends or the node stops, never else.
func (h *Shards) WatchOwner(ctx context.Context, key string) (<-chan shard.Owner, error) {
	s, err := h.running()
	if err != nil {
		return nil, err
	}
	p, err := h.c.running()
	if err != nil {
		return nil, err
	}
	number := s.Shard(key)
	now := func() shard.Owner {
		owner, epoch, ok := s.OwnerOf(number)
		if !ok {
			return shard.Owner{}
		}
		return shard.Owner{Address: owner.Address, Incarnation: owner.Incarnation, Epoch: epoch}
	}
	return watch(ctx, p, mapChanged, now, func(a, b shard.Owner) bool { return a == b })
}

func mapChanged(before, now *state.Snapshot) bool { return before.ShardMap != now.ShardMap }

// Serve runs fn while this node serves the key's shard, and returns what fn returned; or at once a
// shard.NotOwnerError if this node does not serve it, which matches ErrStopped too while the node stops; after
// Stop it is ErrStopped alone. fn's context ends with ctx, when the shard was to be handed over and fn took
// longer than the drain time-out, and at the session's deadline; its cause then is shard.ErrNotOwner or a
// session.LostError. The shard is not handed over before fn has returned, unless the session is lost: then the
// epoch alone guards what fn writes. epoch is a fencing token: it grows with every owner of the shard; give it
// to whatever fn writes to outside etcd, and in etcd use [Shards.Txn]. See [Shards.Hold] for what goes on until
// the shard is to be handed over.
func (h *Shards) Serve(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	s, err := h.running()
	if err != nil {
		return err
	}
	return s.Serve(ctx, key, fn)
}

// Hold waits until this node serves the key's shard, runs fn, and returns what fn returned. It is for
// what goes on for as long as the shard is here, and would always use the drain time-out up: fn's
// context ends as soon as the shard is to be handed over, with shard.ErrNotOwner as its cause; all else
// is as with Serve. To go on when the shard comes back, call Hold again. If fn does not run, the error
// is the cause of ctx, or one that matches ErrStopped, ErrNotStarted or ErrShardingOff.
func (h *Shards) Hold(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	s, err := h.running()
	if err != nil {
		return err
	}
	return s.Hold(ctx, key, fn)
}

// HoldAlone is Hold for what is to run once on this node: a caller with the same key and name as another
// one waits until that one's fn has returned, as it would if another node served the shard. Other names
// of the key do not wait for each other, nor do callers of Hold.
func (h *Shards) HoldAlone(ctx context.Context, key, name string,
	fn func(ctx context.Context, epoch int64) error) error {
	s, err := h.running()
	if err != nil {
		return err
	}
	return s.HoldAlone(ctx, key, name, fn)
}

// Serves reports whether this node serves the shard of that number at this instant, and under which
// epoch. It does not block.
func (h *Shards) Serves(number int) (epoch int64, ok bool) {
	s, err := h.part(number)
	if err != nil {
		return 0, false
	}
	return s.Serves(number)
}

// Held is how many shards this node holds: those that it acquires, serves or releases.
func (h *Shards) Held() int {
	s, err := h.running()
	if err != nil {
		return 0
	}
	return s.Held()
}

// Guard are comparisons that hold in an etcd transaction only while the shard of that number is this node's
// under that epoch, from OnAcquire until OnRelease has returned, for transactions of your own, as in
// client.Txn(ctx).If(guard...). They are about the whole shard map at etcd, and all that this node has
// released, so they also fail once after a rebalance that left this shard alone: take them anew then, which
// fails with a shard.NotOwnerError if the shard is lost. [Shards.Txn] does so by itself. It does not block.
func (h *Shards) Guard(number int, epoch int64) ([]clientv3.Cmp, error) {
	s, err := h.part(number)
	if err != nil {
		return nil, err
	}
	return s.Guard(number, epoch)
}

// Txn is a transaction that etcd commits only while the shard of that number is this node's under that epoch,
// as Guard has it. Its Commit returns a shard.NotOwnerError and writes nothing if it does not; otherwise it
// answers as an ordinary transaction does: Succeeded is about the caller's own comparisons. It is for one
// goroutine at a time.
func (h *Shards) Txn(ctx context.Context, number int, epoch int64) (clientv3.Txn, error) {
	s, err := h.part(number)
	if err != nil {
		return nil, err
	}
	return s.Txn(ctx, number, epoch), nil
}

// part is running for a shard that there is.
func (h *Shards) part(number int) (*consensusmanager.Shards, error) {
	s, err := h.running()
	if err == nil && (number < 0 || number >= h.Count()) {
		return nil, fmt.Errorf("%w: %d is none of the %d", shard.ErrNotOwner, number, h.Count())
	}
	return s, err
}

// ShardTable is the shard map and how far its moves have come, as far as this node knows. Errors are
// ErrShardingOff, ErrNotStarted, ErrStopped, and one that says why there is no map. It does not block;
// with 8192 shards it takes about a millisecond.
func (c *Cluster) ShardTable() (shard.Table, error) {
	if c.cfg.Sharding.Off {
		return shard.Table{}, ErrShardingOff
	}
	p, err := c.running()
	if err != nil {
		return shard.Table{}, err
	}
	return shardview.New(p.mirror.Snapshot())
}
