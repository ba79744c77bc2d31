package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// ErrShardCount is returned when the cluster works with another number of shards. The number is fixed for the
// life of a cluster, because nearly every key belongs to another shard under another number.
var ErrShardCount = errors.New("the cluster has another number of shards; give this node the same, or turn " +
	"Sharding.Off on")

// ShardCountError holds the cluster's number of shards and this node's. It matches ErrShardCount.
type ShardCountError struct {
	Cluster, Own int
	// Node is a member with the cluster's number. It is empty if the number comes from the shard map.
	Node string
}

// Error returns a text with both numbers.
func (e *ShardCountError) Error() string {
	if e.Node != "" {
		return fmt.Sprintf("%v: %s has %d, this node %d", ErrShardCount, e.Node, e.Cluster, e.Own)
	}
	return fmt.Sprintf("%v: it has %d, this node %d", ErrShardCount, e.Cluster, e.Own)
}

// Unwrap returns ErrShardCount.
func (e *ShardCountError) Unwrap() error { return ErrShardCount }

// Start starts to watch the cluster and to register. It does not block.
func (m *Member) Start() {
	m.Registration.Start()
	m.Go(m.reportFailure)
	m.Go(m.Detector.DefendSelf)
	m.Detector.Start()
}

// reportFailure records in the member record whether the election has failed.
func (m *Member) reportFailure(ctx context.Context) {
	election := m.Consensus.Election()
	sub := election.Subscribe()
	defer sub.Close()
	wait.Each(ctx, sub.C, func() { m.Membership.SetElectionFailed(election.Failed()) })
}

// Join blocks until this member is registered and queued. Errors are ctx's cause, membership.ErrAddressTaken
// and ErrShardCount.
func (m *Member) Join(ctx context.Context) error {
	snap, err := m.AwaitRegistered(ctx)
	if err != nil {
		return err
	}
	if err := m.checkShardCount(snap); err != nil {
		return err
	}
	return m.Consensus.Start(ctx)
}

// StartDuties starts to plan the shards while that is this member's duty, and to acquire its own. Call it after Join.
// It does not block.
func (m *Member) StartDuties() {
	m.onDuty = true
	m.Go(m.Consensus.Run)
}

// checkShardCount returns an error if the cluster works with another number of shards than this member, by its map or
// by the members that registered earlier.
func (m *Member) checkShardCount(s *state.Snapshot) error {
	count := m.cfg.Planning.Shards
	if count == 0 {
		return nil
	}
	if shards := s.Map(); shards != nil && shards.Shards() != count {
		return &ShardCountError{Cluster: shards.Shards(), Own: count}
	}
	own := s.Member(m.cfg.Address)
	for _, other := range s.Members {
		if own != nil && other.Incarnation < own.Incarnation && other.Shards != 0 && other.Shards != count {
			return &ShardCountError{Cluster: other.Shards, Own: count, Node: other.Address}
		}
	}
	return nil
}
