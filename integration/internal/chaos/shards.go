//go:build unix

package chaos

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

const (
	shardCount = 24
	// guardedTimeout limits one guarded write in a shard.
	guardedTimeout = 2 * time.Second
	// readEvery is the number of visits to a shard per read of its register.
	readEvery = 4
)

// shardRegister returns the key that the owners of a shard write.
func shardRegister(shard int) string { return fmt.Sprintf("/chaos/shard/%d", shard) }

// keyIn returns a key that belongs to shard n.
func keyIn(n int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(i); shard.Of(key, shardCount) == n {
			return key
		}
	}
}

// shardWriter is one node's work in its shards: writes that the store refuses if it has seen a greater epoch.
type shardWriter struct {
	client    *clientv3.Client
	registers [shardCount]*history.Register
	keys      [shardCount]string
}

func newShardWriter(rec *history.Recorder, name string, client *clientv3.Client) *shardWriter {
	g := &shardWriter{client: client}
	for i := range shardCount {
		g.registers[i] = rec.ShardRegister(name, client, shardRegister(i), i)
		g.keys[i] = keyIn(i)
	}
	return g
}

// shardingConfig returns the node's configuration of shards. The budget is large, because every fault moves shards.
func (g *shardWriter) shardingConfig() cluster.Sharding {
	return cluster.Sharding{Shards: shardCount, Window: 200 * time.Millisecond, DrainTimeout: time.Second,
		MovesPerMinute: 1 << 20, OnAcquire: g.storeEpoch}
}

// storeEpoch makes the store record the epoch before the shard is served. From then on no earlier owner can write.
func (g *shardWriter) storeEpoch(ctx context.Context, shard int, epoch int64) {
	for ctx.Err() == nil {
		switch g.writeGuarded(ctx, shard, epoch) {
		case history.OutcomeAccepted:
			return
		case history.OutcomeRefused:
			<-ctx.Done() // another node owns it by now
		default:
			wait.For(ctx, pollInterval)
		}
	}
}

// visitShards visits one shard after the other until ctx ends. It writes in the shards that the node serves. After
// losing one, it continues to write under the old epoch until a write is refused, like a worker that does not
// learn of the loss.
func (g *shardWriter) visitShards(ctx context.Context, owned *cluster.Shards) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var last [shardCount]int64 // epochs not refused yet
	for i := 0; ; i++ {
		shard := i % shardCount
		// The function ignores its own context.
		_ = owned.Serve(ctx, g.keys[shard], func(_ context.Context, epoch int64) error {
			last[shard] = epoch
			g.writeGuarded(ctx, shard, epoch)
			return nil
		}) // it fails if another node owns the shard
		if _, serves := owned.Serves(shard); !serves && last[shard] != 0 {
			if g.writeGuarded(ctx, shard, last[shard]) == history.OutcomeRefused {
				last[shard] = 0
			}
		}
		if i%readEvery == 0 {
			g.runBounded(ctx, g.registers[shard].Read)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (g *shardWriter) writeGuarded(ctx context.Context, shard int, epoch int64) history.Outcome {
	return g.runBounded(ctx, func(ctx context.Context) history.Op {
		return g.registers[shard].Write(ctx, fence{g.client, shard, epoch})
	}).Outcome
}

func (g *shardWriter) runBounded(ctx context.Context, attempt func(context.Context) history.Op) history.Op {
	ctx, cancel := context.WithTimeout(ctx, guardedTimeout)
	defer cancel()
	return attempt(ctx)
}

// servedShards returns the shards that a node serves now, with their epochs.
func servedShards(owned *cluster.Shards) map[int]int64 {
	out := map[int]int64{}
	for shard := range owned.Count() {
		if epoch, ok := owned.Serves(shard); ok {
			out[shard] = epoch
		}
	}
	return out
}

// shardsAtRest reports whether every shard has a registered owner, all moves are complete, and the nodes' numbers of
// shards differ by at most one.
func shardsAtRest(s *state.Snapshot) bool {
	if s.ShardMap == nil || s.ShardMap.Map == nil || s.ShardMap.Shards() != shardCount {
		return false
	}
	for move := range s.ShardMap.Moves() {
		if !s.MoveDone(move) {
			return false
		}
	}
	least, most, sum := shardCount, 0, 0
	for _, m := range s.Members {
		n := len(ownedShards(s, m.Address))
		least, most, sum = min(least, n), max(most, n), sum+n
	}
	return sum == shardCount && most-least <= 1
}

// ownedShards returns the shards that the map assigns to the current incarnation at an address, with their epochs.
func ownedShards(s *state.Snapshot, address string) map[int]int64 {
	out := map[int]int64{}
	m := s.Member(address)
	if m == nil || s.ShardMap == nil || s.ShardMap.Map == nil {
		return out
	}
	for shard := range s.ShardMap.Shards() {
		owner, ok := s.ShardMap.Owner(shard)
		if ok && owner == (sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}) {
			out[shard] = s.ShardMap.Epoch(shard)
		}
	}
	return out
}
