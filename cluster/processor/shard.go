package processor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/internal/wait"
)

// Shards tells what this node serves: a *consensusmanager.Shards, as Cluster.Shards returns.
type Shards interface {
	Shard(key string) int
	Serves(shard int) (epoch int64, ok bool)
	Serve(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error
}

// ErrShardMoved is the cause of a handler's context when the shard is to be handed over.
var ErrShardMoved = errors.New("the shard is to be handed over")

// shardLook is how often this process asks itself what it serves.
const shardLook = 20 * time.Millisecond

// Shard processes on the node that serves the key's shard, with the shard's epoch for a token.
// When the shard is to be handed over, the handler's context ends at once, and the next owner
// begins when the handler has returned.
func Shard(in Shards, key string) LeaderLock {
	return LockFunc(func(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
		// Cluster.Shards returns a nil pointer, which is no nil interface.
		if v := reflect.ValueOf(in); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%w: shard of %q: there are no shards; Cluster.Shards is nil before Start, and with Sharding.Off", ErrNoLock, key)
		}
		for {
			ran := false
			err := in.Serve(ctx, key, func(ctx context.Context, epoch int64) error {
				ran = true
				return whileServed(ctx, in, in.Shard(key), epoch, fn)
			})
			switch {
			case ran:
				return err
			case errors.Is(err, consensusmanager.ErrStopped):
				return fmt.Errorf("%w: shard of %q: %w", ErrNoLock, key, err)
			case err != nil && !errors.Is(err, consensusmanager.ErrNotOwner):
				return err
			}
			if !wait.For(ctx, shardLook) {
				return context.Cause(ctx)
			}
		}
	})
}

// whileServed runs fn until the shard is not served any more: Serve alone would let it go on
// for the drain time-out.
func whileServed(ctx context.Context, in Shards, shard int, epoch int64, fn func(ctx context.Context, token int64) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var look sync.WaitGroup
	defer look.Wait()
	defer cancel(nil)
	look.Go(func() {
		for wait.For(ctx, shardLook) {
			if now, ok := in.Serves(shard); !ok || now != epoch {
				cancel(fmt.Errorf("shard %d: %w", shard, ErrShardMoved))
			}
		}
	})
	return fn(ctx, epoch)
}
