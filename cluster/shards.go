package cluster

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

// ErrShardingOff is returned when this node takes no part in the shards; see Sharding.Off.
var ErrShardingOff = lifecycle.ErrShardingOff

// Shards is this node's part in the shards. It finds the owners of keys, and runs functions only on the owner.
// All methods are safe for concurrent use. On a node that is not started, has stopped, or takes no part in the
// shards, the error is ErrNotStarted, ErrStopped or ErrShardingOff, and methods without an error report that no
// node owns any shard.
type Shards struct{ c *Cluster }

// Shards returns this node's part in the shards. It is never nil.
func (c *Cluster) Shards() *Shards { return &c.shards }

// runningShards returns the shards of a running node.
func (h *Shards) runningShards() (*consensusmanager.Shards, error) {
	if h.c.cfg.Sharding.Off {
		return nil, ErrShardingOff
	}
	p, err := h.c.runningParts()
	if err != nil {
		return nil, err
	}
	return p.Consensus.Shards(), nil
}

// Count returns the number of shards in this node's configuration.
func (h *Shards) Count() int { return h.c.cfg.Sharding.Shards }

// Shard returns the shard of a key, from 0 to Count less one.
func (h *Shards) Shard(key string) int { return shard.Of(key, h.Count()) }

// Owner returns the node that owns a key's shard as far as this node knows, or false if no node does. It does not
// block. The owner may not serve the shard yet, or may have ceased to; only the owner itself knows.
func (h *Shards) Owner(key string) (shard.Owner, bool) {
	if h.c.cfg.Sharding.Off {
		return shard.Owner{}, false
	}
	return h.c.consensus.Owner(key)
}

// OwnerOf returns the owner of a shard by its number; see Owner.
func (h *Shards) OwnerOf(number int) (shard.Owner, bool) {
	if h.c.cfg.Sharding.Off {
		return shard.Owner{}, false
	}
	return h.c.consensus.OwnerOf(number)
}

// WatchOwner returns a channel that delivers the owner of a key's shard as far as this node knows, then every
// change; the zero Owner means that there is none. A slow receiver skips intermediate values and always gets the
// newest. The channel closes when ctx ends or the node stops, and never otherwise.
func (h *Shards) WatchOwner(ctx context.Context, key string) (<-chan shard.Owner, error) {
	if h.c.cfg.Sharding.Off {
		return nil, ErrShardingOff
	}
	return h.c.consensus.WatchOwner(ctx, key)
}

// Serve runs fn if this node serves the key's shard, and returns fn's error. If this node does not serve the
// shard, it returns a shard.NotOwnerError at once; while the node stops that also matches ErrStopped. After Stop
// the error is ErrStopped alone. If the process stood still, Serve first waits until etcd has confirmed the session.
//
// fn's context ends with ctx, when the shard is to be handed over and fn takes longer than the drain time-out,
// and at the session's deadline. Its cause in the latter two cases is shard.ErrNotOwner or a session.LostError.
// The shard is not handed over before fn has returned, unless the session is lost. After that only the epoch
// protects the writes of fn. epoch is a fencing token that grows with every owner of the shard. Pass it to the
// systems outside of etcd that fn writes to; in etcd, use [Ownership.Txn]. For work that goes on until the shard is
// handed over, see [Shards.Hold].
func (h *Shards) Serve(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	s, err := h.runningShards()
	if err != nil {
		return err
	}
	return s.Serve(ctx, key, fn)
}

// Hold waits until this node serves the key's shard, runs fn, and returns fn's error. Use it for work that goes
// on for as long as the shard is here, and that would always use up the drain time-out in Serve. fn's context
// ends as soon as the shard is to be handed over, with shard.ErrNotOwner as its cause. Everything else is as with
// Serve. To go on when the shard comes back, call Hold again. If fn does not run, the error is the cause of ctx,
// or one that matches ErrStopped, ErrNotStarted or ErrShardingOff.
func (h *Shards) Hold(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	s, err := h.runningShards()
	if err != nil {
		return err
	}
	return s.Hold(ctx, key, fn)
}

// HoldAlone is like Hold, but lets one caller at a time run for each key and name on this node. A second caller
// waits until the first one's fn has returned, as it would if another node served the shard. It does not wait for
// callers with other names of the key, nor for callers of Hold.
func (h *Shards) HoldAlone(ctx context.Context, key, name string,
	fn func(ctx context.Context, epoch int64) error) error {
	s, err := h.runningShards()
	if err != nil {
		return err
	}
	return s.HoldAlone(ctx, key, name, fn)
}

// Serves reports whether this node serves the shard of that number at this instant, and under which epoch. It
// does not block.
func (h *Shards) Serves(number int) (epoch int64, ok bool) {
	s, err := h.shardsFor(number)
	if err != nil {
		return 0, false
	}
	return s.Serves(number)
}

// Held returns the number of shards that this node is acquiring, serves or is releasing.
func (h *Shards) Held() int {
	s, err := h.runningShards()
	if err != nil {
		return 0
	}
	return s.Held()
}

// shardsFor is runningShards, with a check that the shard exists.
func (h *Shards) shardsFor(number int) (*consensusmanager.Shards, error) {
	s, err := h.runningShards()
	if err == nil && (number < 0 || number >= h.Count()) {
		return nil, fmt.Errorf("%w: %d is none of the %d", shard.ErrNotOwner, number, h.Count())
	}
	return s, err
}

// ShardTable returns the shard map and the progress of its moves, as far as this node knows. Errors are
// ErrShardingOff, ErrNotStarted, ErrStopped, and one that gives the reason if there is no map. ShardTable does
// not block; with 8192 shards it takes about a millisecond.
func (c *Cluster) ShardTable() (shard.Table, error) {
	if c.cfg.Sharding.Off {
		return shard.Table{}, ErrShardingOff
	}
	p, err := c.runningParts()
	if err != nil {
		return shard.Table{}, err
	}
	return shardview.New(p.Mirror.Snapshot())
}
