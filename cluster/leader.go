package cluster

import (
	"context"

	"github.com/goverse/goverse/internal/consensus"
	"github.com/goverse/goverse/internal/leaderelection"
	"github.com/goverse/goverse/internal/state"
)

// GetConsensusManager is what is agreed, and who leads. It is nil before Start
// has returned; GetLeaderNode and IsLeader may be called on it all the same.
func (c *Cluster) GetConsensusManager() *consensus.ConsensusManager {
	p, err := c.running()
	if err != nil {
		return nil
	}
	return p.manager
}

// GetLeaderNode is the leader's advertise address; "" when there is none, while
// this node is cut off from etcd and cannot say, and before Start. It does not
// block.
func (c *Cluster) GetLeaderNode() string {
	p, err := c.running()
	if err != nil {
		return ""
	}
	return p.manager.GetLeaderNode()
}

// IsLeader reports whether this node leads at this instant. A hot path asks
// GetConsensusManager().IsLeader, which takes no lock.
func (c *Cluster) IsLeader() bool {
	p, err := c.running()
	return err == nil && p.manager.IsLeader()
}

// Snapshot is the newest state of the cluster that this node has seen: members,
// queue, leader. It is immutable. Nil before Start has returned.
func (c *Cluster) Snapshot() *state.Snapshot {
	p, err := c.running()
	if err != nil {
		return nil
	}
	return p.mirror.Snapshot()
}

// Members are the registered nodes, by address.
func (c *Cluster) Members() []*state.Member {
	if s := c.Snapshot(); s != nil {
		return s.Members
	}
	return nil
}

// Term is the term that this node leads by now, or nil.
func (c *Cluster) Term() *leaderelection.Term {
	p, err := c.running()
	if err != nil {
		return nil
	}
	return p.manager.Election().Term()
}

// WatchLeader delivers who leads now, and every change; see
// [leaderelection.LeaderElection.Watch].
func (c *Cluster) WatchLeader(ctx context.Context) (<-chan state.Leader, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	return p.manager.Election().Watch(ctx), nil
}

// WaitForLeader blocks until there is a leader, or ctx ends.
func (c *Cluster) WaitForLeader(ctx context.Context) (state.Leader, error) {
	p, err := c.running()
	if err != nil {
		return state.Leader{}, err
	}
	return p.manager.Election().WaitForLeader(ctx)
}

// Lead waits until this node leads and runs fn within the term; see
// [leaderelection.LeaderElection.Lead].
func (c *Cluster) Lead(ctx context.Context, fn func(ctx context.Context, t *leaderelection.Term) error) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().Lead(ctx, fn)
}

// Resign gives leadership up and queues again at the tail; see
// [leaderelection.LeaderElection.Resign].
func (c *Cluster) Resign(ctx context.Context) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().Resign(ctx)
}

// Transfer hands leadership over to the member at address; see
// [leaderelection.LeaderElection.Transfer].
func (c *Cluster) Transfer(ctx context.Context, address string) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().Transfer(ctx, address)
}
