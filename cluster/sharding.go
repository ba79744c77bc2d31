package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/sharding/shardplan"
)

// ErrShardCount: the cluster works with another number of shards. It is fixed for the
// life of a cluster: with another one nearly every key belongs elsewhere.
var ErrShardCount = member.ErrShardCount

// A ShardCountError has the cluster's number and this node's. It matches ErrShardCount.
type ShardCountError = member.ShardCountError

// defaultMaxAcquiring keeps a node that gets thousands of shards from asking for thousands of things at
// once, and is more than most stores answer at a time.
const defaultMaxAcquiring = 256

// Sharding says how this node takes part in the shards. The zero value works. All nodes
// of a cluster need the same Shards, and should have the same Window, MinMembers, Exclude
// and MovesPerMinute: the leader goes by its own.
type Sharding struct {
	// Off: this node owns no shards. While it leads it deals them out to the others, as
	// many as those work with.
	Off bool
	// Shards is how many shards there are. Default 8192.
	Shards int
	// OnAcquire is called when a shard becomes this node's, before it is served here. ctx
	// is the owner's: it ends when the shard is handed over, and at the session's deadline
	// at the latest. epoch is a fencing token: it grows with every owner of the shard. The
	// shard is served when OnAcquire has returned; if it cannot do its work, it keeps trying
	// until ctx ends. Calls for different shards run at the same time, up to MaxAcquiring; one whose
	// shard is lost before its turn is not made, nor is OnRelease then. A call that panics, or leaves its
	// goroutine by runtime.Goexit, is logged with its stack and made again, after a quarter of a second
	// that grows to ten seconds; the shard is not served before.
	OnAcquire func(ctx context.Context, shard int, epoch int64)
	// MaxAcquiring is how many calls of OnAcquire run at a time: where so many do not return, no other
	// shard is served. Default 256.
	MaxAcquiring int
	// OnRelease is called when the shard is handed over or lost: what ran in it has ended,
	// and the ctx of OnAcquire with it. The next owner begins when it has returned, if the
	// session still stands. So a goroutine that OnAcquire began is waited for here. ctx ends
	// after another drain time-out. A call that panics, or leaves its goroutine, is logged with its stack,
	// and counts as one that has returned.
	OnRelease func(ctx context.Context, shard int)
	// DrainTimeout is how long a shard that is handed over waits for what runs in it,
	// before its context is cancelled; the shard then still waits until it has ended. What
	// Shards.Hold and HoldAlone run is cancelled at once. Default 10 s.
	DrainTimeout time.Duration

	// Window is for how long the members must have been the same before the leader rebalances
	// the load, and, up to a second, before it deals the shards out the first time. Shards of a node
	// that is gone, or leaves, move at once. Default 1 s.
	Window time.Duration
	// MinMembers is how many must be there before shards are assigned at all. Default 1.
	MinMembers int
	// Exclude are labels (see Config.Labels): a node that carries one of them gets no
	// shards. It can still lead.
	Exclude map[string]string
	// MovesPerMinute bounds how many shards move only to rebalance the load, so that a node
	// that comes and goes cannot keep the others busy. Default twice the shards.
	MovesPerMinute int
}

func (s Sharding) withDefaults() Sharding {
	if s.Shards == 0 {
		s.Shards = shard.DefaultCount
	}
	if s.MaxAcquiring == 0 {
		s.MaxAcquiring = defaultMaxAcquiring
	}
	if s.DrainTimeout == 0 {
		s.DrainTimeout = 10 * time.Second
	}
	if s.Window == 0 {
		s.Window = time.Second
	}
	if s.MinMembers == 0 {
		s.MinMembers = 1
	}
	if s.MovesPerMinute == 0 {
		s.MovesPerMinute = 2 * s.Shards
	}
	return s
}

func (s Sharding) validate() error {
	switch {
	case s.Shards < 0 || s.Shards > shard.MaxCount:
		return fmt.Errorf("%w: Sharding.Shards is %d: give a number from 1 to %d; 8192 is a good one",
			ErrBadConfig, s.Shards, shard.MaxCount)
	case s.MaxAcquiring < 0:
		return fmt.Errorf("%w: Sharding.MaxAcquiring is negative (%d); leave it 0 for the default",
			ErrBadConfig, s.MaxAcquiring)
	case s.DrainTimeout < 0:
		return fmt.Errorf("%w: Sharding.DrainTimeout is negative (%v); leave it 0 for the default",
			ErrBadConfig, s.DrainTimeout)
	case s.Window < 0:
		return fmt.Errorf("%w: Sharding.Window is negative (%v); leave it 0 for the default", ErrBadConfig, s.Window)
	case s.MinMembers < 0:
		return fmt.Errorf("%w: Sharding.MinMembers is negative (%d); leave it 0 for 1", ErrBadConfig, s.MinMembers)
	case s.MovesPerMinute < 0:
		return fmt.Errorf("%w: Sharding.MovesPerMinute is negative (%d); leave it 0 for the default",
			ErrBadConfig, s.MovesPerMinute)
	}
	return nil
}

// count is what the member's record says: 0 if it takes no part.
func (s Sharding) count() int {
	if s.Off {
		return 0
	}
	return s.Shards
}

func (s Sharding) planning() shardplan.Settings {
	return shardplan.Settings{Shards: s.count(), Window: s.Window, MinMembers: s.MinMembers, Exclude: s.Exclude,
		Budget: s.MovesPerMinute}
}

// part is this node's own, nil if it takes none.
func (s Sharding) part() *consensusmanager.ShardsConfig {
	if s.Off {
		return nil
	}
	return &consensusmanager.ShardsConfig{Shards: s.Shards, DrainTimeout: s.DrainTimeout, OnAcquire: s.OnAcquire,
		MaxAcquiring: s.MaxAcquiring, OnRelease: s.OnRelease}
}
