package processor

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/goverse/goverse/internal/consensus"
)

// Shards is this node's part in the shards: a *consensusmanager.Shards, as Cluster.Shards returns.
type Shards interface {
	// HoldAlone waits until this node serves the key's shard, and nobody else runs here for that key
	// and name, and runs fn; see [consensus.Shards.HoldAlone].
	HoldAlone(ctx context.Context, key, name string, fn func(ctx context.Context, epoch int64) error) error
}

// Shard processes on the node that serves the key's shard, with the shard's epoch for a token.
// When the shard is to be handed over, the handler's context ends at once, with
// [consensus.ErrNotOwner] as its cause, and the next owner begins when the handler has
// returned. A second processor of the same name and key in this process waits until the first
// gives up, as it would on another node; those of other names share the shard.
func Shard(in Shards, key string) LeaderLock {
	return LockFunc(func(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
		// Cluster.Shards returns a nil pointer, which is no nil interface.
		if v := reflect.ValueOf(in); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%w: shard of %q: there are no shards; Cluster.Shards is nil before Start, and with Sharding.Off", ErrNoLock, key)
		}
		ran := false
		err := in.HoldAlone(ctx, key, callerOf(ctx).name, func(ctx context.Context, epoch int64) error {
			ran = true
			return fn(ctx, epoch)
		})
		if !ran && errors.Is(err, consensus.ErrStopped) {
			return fmt.Errorf("%w: shard of %q: %w", ErrNoLock, key, err)
		}
		return err
	})
}
