package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// workers records the runs of Sharding.Run of all nodes.
type workers struct {
	mu       sync.Mutex
	running  map[int]int // by shard
	most     int         // at a time in one shard
	calls    map[int]int
	released int
}

func (w *workers) run(ctx context.Context, shard int, epoch int64) error {
	w.mu.Lock()
	w.running[shard]++
	w.most = max(w.most, w.running[shard])
	w.calls[shard]++
	first := w.calls[shard] == 1
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running[shard]--
	}()
	if first && epoch > 0 {
		if shard == 0 {
			panic("planted")
		}
		return errors.New("planted")
	}
	<-ctx.Done()
	return ctx.Err()
}

func (w *workers) total() (running int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.running {
		running += n
	}
	return running
}

// Every shard has one worker in the cluster. A worker that fails is called again; a shard that moves waits for it.
func TestShardWorkers(t *testing.T) {
	t.Parallel()
	w := &workers{running: map[int]int{}, calls: map[int]int{}}
	const shards = 8
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: shards, Window: time.Millisecond, MovesPerMinute: 1 << 20, Run: w.run,
			OnRelease: func(_ context.Context, shard int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.released++
				require.Zero(t, w.running[shard], "OnRelease comes after Run has ended")
			}}
	}))
	c.Eventually(func() bool { return w.total() == shards }, "every worker that failed runs again")
	second := c.AddNode()
	c.Eventually(func() bool { return second.Cluster().Shards().Held() == shards/2 && w.total() == shards },
		"half of them have moved")
	w.mu.Lock()
	require.Equal(t, shards/2, w.released)
	w.mu.Unlock()
	require.NoError(t, second.Cluster().Stop(etcdtest.Context(t)))
	c.Eventually(func() bool { return w.total() == shards }, "they are back")
	require.NoError(t, c.Node(0).Cluster().Stop(etcdtest.Context(t)))
	require.Zero(t, w.total())
	require.Equal(t, 1, w.most, "no two owners at a time")
}
