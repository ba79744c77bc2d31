package consensusmanager

import (
	"context"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/state"
)

// Owner returns the node that owns a key's shard as far as this node knows, or false if no node does. It does not
// block. The owner may not serve the shard yet, or may have ceased to; only the owner itself knows. A node that takes
// no part in the shards knows their owners too.
func (m *ConsensusManager) Owner(key string) (shard.Owner, bool) {
	owner := ownerOfKey(m.snapshot(), key)
	return owner, owner != shard.Owner{}
}

// OwnerOf returns the owner of a shard by its number; see Owner. It returns false if there is no such shard.
func (m *ConsensusManager) OwnerOf(number int) (shard.Owner, bool) {
	owner := ownerOfShard(m.snapshot(), number)
	return owner, owner != shard.Owner{}
}

// WatchOwner returns a channel that delivers the owner of a key's shard as far as this node knows, then every change;
// the zero Owner means that there is none. A slow receiver skips intermediate values and always gets the newest. The
// channel closes when ctx ends or the node stops, and never otherwise.
func (m *ConsensusManager) WatchOwner(ctx context.Context, key string) (<-chan shard.Owner, error) {
	return m.watchOwner(ctx, func(s *state.Snapshot) shard.Owner { return ownerOfKey(s, key) })
}

// WatchOwnerOf returns the channel of WatchOwner for a shard by its number.
func (m *ConsensusManager) WatchOwnerOf(ctx context.Context, number int) (<-chan shard.Owner, error) {
	return m.watchOwner(ctx, func(s *state.Snapshot) shard.Owner { return ownerOfShard(s, number) })
}

func (m *ConsensusManager) watchOwner(ctx context.Context,
	now func(*state.Snapshot) shard.Owner) (<-chan shard.Owner, error) {
	mapChanged := func(before, now *state.Snapshot) bool { return before.ShardMap != now.ShardMap }
	return watchSnapshot(ctx, m, mapChanged, now, func(a, b shard.Owner) bool { return a == b })
}

// ownerOfKey returns the owner of a key's shard by the map of a snapshot, or the zero Owner. The cluster's number of
// shards is that of the map.
func ownerOfKey(s *state.Snapshot, key string) shard.Owner {
	shards := s.Map()
	if shards == nil {
		return shard.Owner{}
	}
	return ownerOfShard(s, shard.Of(key, shards.Shards()))
}

// ownerOfShard returns the owner of a shard by the map of a snapshot, or the zero Owner.
func ownerOfShard(s *state.Snapshot, number int) shard.Owner {
	shards := s.Map()
	if shards == nil || number < 0 || number >= shards.Shards() {
		return shard.Owner{}
	}
	owner, ok := shards.Owner(number)
	if !ok {
		return shard.Owner{}
	}
	return shard.Owner{Address: owner.Address, Incarnation: owner.Incarnation, Epoch: shards.Epoch(number)}
}
