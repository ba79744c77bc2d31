package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// ErrShardCount: the cluster works with another number of shards. It is fixed for the
// life of a cluster: with another one nearly every key belongs elsewhere.
var ErrShardCount = errors.New("the cluster has another number of shards; give this node the same, or turn " +
	"Sharding.Off on")

// ShardCountError says which number of shards the cluster has, and which this node. It matches ErrShardCount.
type ShardCountError struct {
	Cluster, Own int
	// Node is a member with the cluster's number, where there is no map yet that has it.
	Node string
}

// Error has both numbers.
func (e *ShardCountError) Error() string {
	if e.Node != "" {
		return fmt.Sprintf("%v: %s has %d, this node %d", ErrShardCount, e.Node, e.Cluster, e.Own)
	}
	return fmt.Sprintf("%v: it has %d, this node %d", ErrShardCount, e.Cluster, e.Own)
}

// Unwrap is ErrShardCount.
func (e *ShardCountError) Unwrap() error { return ErrShardCount }

// Start begins to look at the cluster, and to register. It does not block.
func (c *Core) Start() {
	ctx, end := context.WithCancel(context.Background())
	c.close = end
	c.rest.Go(func() { _ = c.Mirror.Run(ctx) }) // ends with its context only
	c.rest.Go(func() { c.Member.Run(ctx) })
	c.rest.Go(func() { c.reportFailure(ctx) })
	c.rest.Go(func() { c.Detector.Answer(ctx) })
	c.Detector.Start()
	keeping, leave := context.WithCancel(context.Background())
	c.leave = leave
	go func() {
		defer close(c.left)
		select {
		case <-c.Mirror.Ready():
			c.err = c.Keeper.Run(keeping)
		case <-keeping.Done():
		}
	}()
}

// reportFailure writes into the member record whether the election failed.
func (c *Core) reportFailure(ctx context.Context) {
	election := c.Manager.Election()
	sub := election.Subscribe()
	defer sub.Close()
	wait.Each(ctx, sub.C, func() { c.Member.SetElectionFailed(election.Failed()) })
}

// Join waits for the registration and queues. It blocks until that is done, or cannot be: errors are ctx's cause,
// membership.ErrAddressTaken and ErrShardCount.
func (c *Core) Join(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	defer func() { <-watching }()
	go func() {
		defer close(watching)
		select {
		case <-c.left:
			cancel(c.err)
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
	if err := c.agreed(snap); err != nil {
		return err
	}
	return c.Manager.Start(ctx)
}

// agreed reports whether this member works with as many shards as the cluster: as its map,
// or the members that were there before.
func (c *Core) agreed(s *state.Snapshot) error {
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
