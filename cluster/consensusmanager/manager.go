// Package consensusmanager holds the state that the cluster agrees on: leader, members, queue, and the owners
// of shards. It starts and stops the election. It also plans the shards while that is this node's duty
// (see [Settings]), and acquires and releases this node's own ([Shards]).
//
// All answers come from the node's own snapshot and session, without a request to etcd.
//
// # What is not promised
//
// Answers about other nodes (leader, members, queue) are as old as the snapshot they come from. Only IsLeader,
// which concerns this node, is exact.
package consensusmanager

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/sharding/shardplan"
)

// ConsensusManager holds one node's view of the agreed state. All methods are safe for concurrent use.
type ConsensusManager struct {
	election *leaderelection.LeaderElection
	part     *leaderelection.Participation // starts and ends election
	mirror   *watchcache.Mirror
	fallback bool
	planner  *planner
	shards   *Shards // nil if sharding is off
}

// Config configures a [ConsensusManager]. The mirror must run.
type Config struct {
	etcd.Process
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper
	Settings
}

// Settings configures a node's part in what the cluster agrees on.
type Settings struct {
	// Observer, Fallback and WorkTimeout are those of [leaderelection.MemberConfig].
	Observer, Fallback bool
	WorkTimeout        time.Duration
	// Planning configures the planning of shards while that is this node's duty. Without Planning.Shards this node
	// owns no shards, and the settings below do not matter.
	Planning     shardplan.Settings
	DrainTimeout time.Duration
	// OnAcquire and OnRelease may be nil. MaxAcquiring limits concurrent calls of OnAcquire; 0: no limit.
	OnAcquire    func(ctx context.Context, shard int, epoch int64)
	MaxAcquiring int
	OnRelease    func(ctx context.Context, shard int)
	// Residents creates what lives in the shards, which do not run yet. It may be nil.
	Residents func(*Shards) Residents
}

// New returns a manager over a running mirror.
func New(cfg Config) (*ConsensusManager, error) {
	election, part, err := leaderelection.NewForMember(leaderelection.MemberConfig{Process: cfg.Named("election"),
		Observer: cfg.Observer, Fallback: cfg.Fallback, WorkTimeout: cfg.WorkTimeout, Mirror: cfg.Mirror,
		Keeper: cfg.Keeper})
	if err != nil {
		return nil, err
	}
	m := &ConsensusManager{election: election, part: part, mirror: cfg.Mirror, fallback: cfg.Fallback}
	cfg.Process = cfg.Named("shards").WithDefaults()
	m.planner = newPlanner(cfg, election)
	if cfg.Planning.Shards > 0 {
		m.shards = newShards(cfg)
	}
	return m, nil
}

// Run plans while that is this node's duty, and acquires and releases shards, until ctx ends.
func (m *ConsensusManager) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { m.planner.run(ctx) })
	if m.shards != nil {
		wg.Go(func() { m.shards.run(ctx) })
	}
	wg.Wait()
}

// Shards returns this node's part in the shards, or nil if sharding is off.
func (m *ConsensusManager) Shards() *Shards {
	return m.shards
}

// Relinquish releases all shards and acquires no more. It blocks until all are released. If ctx ends first, it
// ends the contexts of the functions that run in them, stops waiting, and returns an error.
func (m *ConsensusManager) Relinquish(ctx context.Context) error {
	if m.shards == nil {
		return nil
	}
	defer context.AfterFunc(ctx, m.shards.stopWaiting)()
	m.shards.relinquishShards()
	return m.shards.awaitIdle(ctx)
}

// Start joins the election; see [leaderelection.Participation.Start].
func (m *ConsensusManager) Start(ctx context.Context) error { return m.part.Start(ctx) }

// Withdraw ends this node's candidacy for good and continues to observe; see
// [leaderelection.Participation.Withdraw].
func (m *ConsensusManager) Withdraw(ctx context.Context) error { return m.part.Withdraw(ctx) }

// Close stops observing and waits for all goroutines; see [leaderelection.Participation.Close].
func (m *ConsensusManager) Close() { m.part.Close() }

// Election returns the election, with its terms, Lead, Watch, Resign and Transfer.
func (m *ConsensusManager) Election() *leaderelection.LeaderElection { return m.election }

// IsLeader reports whether this node leads at this instant. It needs no lock, allocation or network.
func (m *ConsensusManager) IsLeader() bool { return m.election.IsLeader() }

// Mode returns the rule by which leadership goes at present. It is fallback if an acting leader leads. It is
// also fallback if there is no leader, this node's election has failed, and this node takes part in fallback.
func (m *ConsensusManager) Mode() leaderelection.Mode {
	if s := m.mirror.Snapshot(); s != nil && len(s.Queue) == 0 {
		if s.Acting != nil || m.fallback && m.election.Failed() != nil {
			return leaderelection.ModeFallback
		}
	}
	return leaderelection.ModeElection
}
