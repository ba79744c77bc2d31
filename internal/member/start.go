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
func (c *Core) Start() {
	ctx, end := context.WithCancel(context.Background())
	c.stopBackground = end
	c.background.Go(func() { _ = c.Mirror.Run(ctx) }) // its only error is the context's
	c.background.Go(func() { c.Member.Run(ctx) })
	c.background.Go(func() { c.reportFailure(ctx) })
	c.background.Go(func() { c.Detector.DefendSelf(ctx) })
	c.Detector.Start()
	keeping, leave := context.WithCancel(context.Background())
	c.stopKeeper = leave
	go func() {
		defer close(c.keeperDone)
		select {
		case <-c.Mirror.Ready():
			c.keeperErr = c.Keeper.Run(keeping)
		case <-keeping.Done():
		}
	}()
}

// reportFailure records in the member record whether the election has failed.
func (c *Core) reportFailure(ctx context.Context) {
	election := c.Manager.Election()
	sub := election.Subscribe()
	defer sub.Close()
	wait.Each(ctx, sub.C, func() { c.Member.SetElectionFailed(election.Failed()) })
}

// Join blocks until this member is registered and queued. Errors are ctx's cause, membership.ErrAddressTaken
// and ErrShardCount.
func (c *Core) Join(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	defer func() { <-watching }()
	go func() {
		defer close(watching)
		select {
		case <-c.keeperDone:
			cancel(c.keeperErr)
		case <-ctx.Done():
		}
	}()
	defer cancel(nil)
	if _, err := c.Keeper.Wait(ctx, nil); err != nil {
		return err
	}
	snap, err := c.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return s.Member(c.cfg.Address) != nil })
	if err != nil {
		return err
	}
	if err := c.checkShardCount(snap); err != nil {
		return err
	}
	return c.Manager.Start(ctx)
}

// checkShardCount returns an error if the cluster works with another number of shards than this member, by its map or
// by the members that registered earlier.
func (c *Core) checkShardCount(s *state.Snapshot) error {
	count := c.cfg.Planning.Shards
	if count == 0 {
		return nil
	}
	if m := s.Map(); m != nil && m.Shards() != count {
		return &ShardCountError{Cluster: m.Shards(), Own: count}
	}
	own := s.Member(c.cfg.Address)
	for _, m := range s.Members {
		if own != nil && m.Incarnation < own.Incarnation && m.Shards != 0 && m.Shards != count {
			return &ShardCountError{Cluster: m.Shards, Own: count, Node: m.Address}
		}
	}
	return nil
}
