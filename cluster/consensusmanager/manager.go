// Package consensusmanager holds what the cluster agrees on: who leads, who is a
// member, who waits in which order, who owns which shard. It starts the election with
// the cluster and stops it with it; it deals the shards out while that is this node's
// duty ([PlannerConfig]), and acquires and releases this node's own ([Shards]).
//
// Everything it answers comes from the node's own snapshot and session, without
// a request to etcd.
//
// # What is not promised
//
// Answers about others (leader, members, queue) are as old as the snapshot they
// come from; only IsLeader, which is about this node, is exact.
package consensusmanager

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/watchcache"
)

// ConsensusManager is one node's view of what is agreed. All methods are safe
// for concurrent use.
type ConsensusManager struct {
	election *leaderelection.LeaderElection
	mirror   *watchcache.Mirror
	fallback bool
	planner  *planner
	shards   *Shards // nil with sharding off
}

// Config is what a manager needs. Without Shards this node owns none.
type Config struct {
	Election leaderelection.Config
	Planner  PlannerConfig
	Shards   *ShardsConfig
}

// New makes a manager over a running mirror; cfg.Election.Mirror must be set.
func New(cfg Config) (*ConsensusManager, error) {
	election, err := leaderelection.New(cfg.Election)
	if err != nil {
		return nil, err
	}
	m := &ConsensusManager{election: election, mirror: cfg.Election.Mirror, fallback: cfg.Election.Fallback}
	m.planner = newPlanner(cfg.Planner, election)
	if cfg.Shards != nil {
		m.shards = newShards(*cfg.Shards)
	}
	return m, nil
}

// Run plans while that is this node's duty, and acquires and releases shards, until ctx
// ends.
func (m *ConsensusManager) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { m.planner.run(ctx) })
	if m.shards != nil {
		wg.Go(func() { m.shards.run(ctx) })
	}
	wg.Wait()
}

// Shards is this node's part in the shards, nil with sharding off.
func (m *ConsensusManager) Shards() *Shards {
	return m.shards
}

// Relinquish releases all shards and acquires none any more. It blocks until that is
// done, or ctx ends: the contexts of what runs in them have ended then, and nothing is
// waited for any longer.
func (m *ConsensusManager) Relinquish(ctx context.Context) error {
	if m.shards == nil {
		return nil
	}
	defer context.AfterFunc(ctx, m.shards.hurry)()
	m.shards.leave()
	return m.shards.idle(ctx)
}

// Start joins the election; see [leaderelection.LeaderElection.Start].
func (m *ConsensusManager) Start(ctx context.Context) error { return m.election.Start(ctx) }

// Withdraw gives leadership up and leaves the queue for good, and goes on
// observing; see [leaderelection.LeaderElection.Withdraw].
func (m *ConsensusManager) Withdraw(ctx context.Context) error { return m.election.Withdraw(ctx) }

// Stop withdraws and joins every goroutine.
func (m *ConsensusManager) Stop(ctx context.Context) error { return m.election.Stop(ctx) }

// Election is the election itself: terms, Lead, Watch, Resign, Transfer.
func (m *ConsensusManager) Election() *leaderelection.LeaderElection { return m.election }

// IsLeader reports whether this node leads at this instant: no lock, no
// allocation, no network.
func (m *ConsensusManager) IsLeader() bool { return m.election.IsLeader() }

// Mode says by which rule leadership goes at present: fallback if an acting
// leader leads, or if nobody does, this node's election failed and it takes part
// in fallback.
func (m *ConsensusManager) Mode() election.Mode {
	if s := m.mirror.Snapshot(); s != nil && len(s.Queue) == 0 {
		if s.Acting != nil || m.fallback && m.election.Failed() != nil {
			return election.ModeFallback
		}
	}
	return election.ModeElection
}
