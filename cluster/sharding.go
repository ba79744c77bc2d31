package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/sharding/shardplan"
)

// ErrShardCount is returned by Start when the cluster works with another number of shards. The number is fixed
// for the life of a cluster, because a change would assign nearly every key to another shard.
var ErrShardCount = member.ErrShardCount

// ShardCountError holds the cluster's number of shards and this node's. It matches ErrShardCount.
type ShardCountError = member.ShardCountError

// defaultMaxAcquiring keeps a node that gets thousands of shards from sending as many requests at once. It is
// more than most stores answer at a time.
const defaultMaxAcquiring = 256

// Sharding configures this node's part in the shards. The zero value works. All nodes of a cluster must have the
// same Shards, and should have the same Window, MinMembers, Exclude and MovesPerMinute, because the leader
// applies its own.
type Sharding struct {
	// Off makes this node own no shards. While it leads it assigns them to the other nodes, with the number of
	// shards that those work with.
	Off bool
	// Shards is the number of shards. Default 8192.
	Shards int
	// OnAcquire is called when this node becomes the owner of a shard, before it serves the shard. ctx ends when
	// the shard is handed over, and at the session's deadline at the latest. epoch is a fencing token that grows
	// with every owner of the shard. The node serves the shard once OnAcquire has returned. If OnAcquire cannot
	// do its work, it should retry until ctx ends. Calls for different shards run concurrently, up to
	// MaxAcquiring. If a shard is lost before its call began, neither OnAcquire nor OnRelease is called for it.
	// If a call panics, or exits its goroutine with runtime.Goexit, it is logged with its stack and repeated
	// after a quarter of a second, a pause that grows to ten seconds; the shard is not served before.
	OnAcquire func(ctx context.Context, shard int, epoch int64)
	// MaxAcquiring limits the concurrent calls of OnAcquire. While that many calls do not return, no further
	// shard is served. Default 256.
	MaxAcquiring int
	// OnRelease is called when the shard is handed over or lost, after everything that ran in it has ended, and
	// after the ctx of OnAcquire has. If the session is still alive, the next owner begins only when OnRelease
	// has returned. Wait here for goroutines that OnAcquire started. ctx ends after another DrainTimeout. A call
	// that panics, or exits its goroutine, is logged with its stack and counts as returned.
	OnRelease func(ctx context.Context, shard int)
	// Run, if set, is called in a goroutine of its own for each shard that this node acquires, right after OnAcquire:
	// for a worker per shard. ctx ends when the shard is handed over, as in OnAcquire, and the next owner begins only
	// when Run has returned. If Run returns an error, panics, or exits its goroutine before that, it is logged and
	// called again after a quarter of a second, a pause that grows to ten seconds. If it returns nil, it is not called
	// again until the node acquires the shard anew. It ends before OnRelease is called.
	Run func(ctx context.Context, shard int, epoch int64) error
	// DrainTimeout is the time for which the handover of a shard waits for functions running in it before it
	// cancels their context. The handover still waits for them after that. Functions in Shards.Hold and HoldAlone
	// are cancelled at once. Default 10 s.
	DrainTimeout time.Duration

	// Window is the time for which the membership must not have changed before the leader rebalances the load.
	// Before the leader assigns the shards for the first time it waits for this too, but at most a second. Shards
	// of a node that is gone, or leaves, move at once. Default 1 s.
	Window time.Duration
	// MinMembers is the number of members needed before shards are assigned at all. Default 1.
	MinMembers int
	// Exclude lists labels (see Config.Labels). Nodes that have one of them get no shards, but can lead.
	Exclude map[string]string
	// MovesPerMinute limits the shards that move only to rebalance the load, so that a node that keeps joining
	// and leaving does not keep the others busy. Default twice the shards.
	MovesPerMinute int
}

func (s Sharding) withDefaults() Sharding {
	s.Shards = cmp.Or(s.Shards, shard.DefaultCount)
	s.MaxAcquiring = cmp.Or(s.MaxAcquiring, defaultMaxAcquiring)
	s.DrainTimeout = cmp.Or(s.DrainTimeout, 10*time.Second)
	s.Window = cmp.Or(s.Window, time.Second)
	s.MinMembers = cmp.Or(s.MinMembers, 1)
	s.MovesPerMinute = cmp.Or(s.MovesPerMinute, 2*s.Shards)
	return s
}

func (s Sharding) validate() error {
	if s.Shards < 0 || s.Shards > shard.MaxCount {
		return fmt.Errorf("%w: Sharding.Shards is %d: give a number from 1 to %d; 8192 is a good one",
			ErrBadConfig, s.Shards, shard.MaxCount)
	}
	return cmp.Or(
		checkNotNegative("Sharding.MaxAcquiring", s.MaxAcquiring),
		checkNotNegative("Sharding.DrainTimeout", s.DrainTimeout),
		checkNotNegative("Sharding.Window", s.Window),
		checkNotNegative("Sharding.MinMembers", s.MinMembers),
		checkNotNegative("Sharding.MovesPerMinute", s.MovesPerMinute))
}

// publishedCount returns the number of shards for the member's record, 0 if it takes no part.
func (s Sharding) publishedCount() int {
	if s.Off {
		return 0
	}
	return s.Shards
}

// managerSettings configures this node's part in the election and in the shards.
func (c Config) managerSettings(log hclog.Logger) consensusmanager.Settings {
	s := c.Sharding
	m := consensusmanager.Settings{Observer: c.Observer, Fallback: c.Fallback == FallbackByName,
		WorkTimeout: c.WorkTimeout, Planning: shardplan.Settings{Shards: s.publishedCount(), Window: s.Window,
			MinMembers: s.MinMembers, Exclude: s.Exclude, Budget: s.MovesPerMinute},
		DrainTimeout: s.DrainTimeout, OnAcquire: s.OnAcquire, MaxAcquiring: s.MaxAcquiring, OnRelease: s.OnRelease}
	if s.Run != nil {
		runs := &shardRuns{sharding: s, log: log, runs: map[int]chan struct{}{}}
		m.OnAcquire, m.OnRelease = runs.onAcquire, runs.onRelease
	}
	return m
}
