package processor

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/internal/leadcaller"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Shards gives access to the shards of this node; Cluster.Shards returns one.
type Shards interface {
	// HoldAlone waits until this node serves the key's shard and no other call for that key and name runs on
	// it, and then runs fn. See Shards.HoldAlone of package cluster.
	HoldAlone(ctx context.Context, key, name string, fn func(ctx context.Context, epoch int64) error) error
}

// Shard returns a LeaderLock that leads on the node that serves the key's shard; the token is the shard's
// epoch. When the shard moves, the handler's context ends at once, with [shard.ErrNotOwner] as its cause, and
// the next owner begins when the handler has returned. A second processor of the same name and key in this
// process waits until the first releases the lead, as it would on another node. Processors with other names
// share the shard.
func Shard(in Shards, key string) LeaderLock {
	return LockFunc(func(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
		if in == nil {
			return fmt.Errorf("%w: shard of %q: the shards are nil; give it Cluster.Shards", ErrNoLock, key)
		}
		ran := false
		err := in.HoldAlone(ctx, key, leadcaller.From(ctx).Name, func(ctx context.Context, epoch int64) error {
			ran = true
			return fn(ctx, epoch)
		})
		if !ran && neverServes(err) {
			return fmt.Errorf("%w: shard of %q: %w", ErrNoLock, key, err)
		}
		return err
	})
}

// neverServes reports whether this process can never serve the shard.
func neverServes(err error) bool {
	return errors.Is(err, lifecycle.ErrStopped) || errors.Is(err, lifecycle.ErrNotStarted) ||
		errors.Is(err, lifecycle.ErrShardingOff)
}
