package processor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// The handler's context ends when the shard is to move, not when the drain time-out has passed. Then the other
// processor begins, which has waited for the shard.
func TestShardMoves(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 4, Window: time.Hour, DrainTimeout: time.Hour}
	}))
	type term struct {
		node  int
		token int64
	}
	begun := make(chan term)
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	var ended []<-chan error
	for i, n := range c.Nodes() {
		ended = append(ended, ledWhile(ctx, processor.Shard(n.Cluster().Shards(), "it"), func(ctx context.Context,
			token int64) error {
			begun <- term{i, token}
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	}
	first := <-begun
	c.Node(first.node).Stop()
	second := <-begun
	require.NotEqual(t, first.node, second.node)
	require.Greater(t, second.token, first.token)
	require.ErrorIs(t, <-ended[first.node], shard.ErrNotOwner)
	cancel()
	require.ErrorIs(t, <-ended[second.node], context.Canceled)
}

// failingShards always fails.
type failingShards struct{}

func (*failingShards) HoldAlone(context.Context, string, string, func(context.Context, int64) error) error {
	return errOops
}

func TestShardThatFails(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, <-led(processor.Shard(&failingShards{}, "it"), nil), errOops)
}

// A node that has stopped sends no calls to itself.
func TestShardOfAStoppedNode(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 4, Window: time.Millisecond}
	}))
	n := c.Node(0)
	shards := n.Cluster().Shards()
	require.NoError(t, <-led(processor.Shard(shards, "it"), func(context.Context, int64) error { return nil }),
		"it is here")
	n.Stop()
	err := <-led(processor.Shard(shards, "it"), nil)
	require.ErrorIs(t, err, processor.ErrNoLock)
	require.ErrorIs(t, err, lifecycle.ErrStopped)
}

// Of two processors with one name on one shard, the second waits until the first ends, as if another node had
// the shard. A processor with another name does not wait.
func TestTwoOnOneShard(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 4, Window: time.Millisecond}
	}))
	source, done, late := &numbers{last: 5}, &handled{}, &handled{}
	cfg := processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: &processor.Memory{},
		BatchSize:  1,
		LeaderLock: processor.Shard(c.Node(0).Cluster().Shards(), "it")}
	first, endFirst := run(t, cfg)
	eventually(t, func() bool { return first.Status().Position == "5" }, "the first has handled all")
	cfg.Handler = late.handle
	cfg.LeaderLock = processor.Shard(c.Node(0).Cluster().Shards(), "it")
	second, _ := run(t, cfg)
	cfg.Name, cfg.Handler = "other", (&handled{}).handle
	other, _ := run(t, cfg)
	eventually(t, func() bool { return other.Status().Leading }, "it has another name")
	source.grow(2000)
	eventually(t, func() bool { return slices.Contains(append(done.all(), late.all()...), 2005) }, "all is handled")
	require.False(t, second.Status().Leading)
	require.Zero(t, first.Status().Failures+second.Status().Failures, "they do not fight")
	require.Equal(t, upTo(2005), done.all())
	endFirst()
	source.grow(1)
	eventually(t, func() bool { return second.Status().Position == "2006" }, "the second goes on")
	require.Equal(t, []int{2006}, late.all())
}
