package consensusmanager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
)

// An outside candidate leads, so the first member in the queue plans. When that member stops, the next one must
// notice that the duty is its own.
func TestPlanningPassesOnBesideAnOutsideLeader(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, nodetest.WithSharding(cluster.Sharding{Shards: 64, Window: 20 * time.Millisecond,
		DrainTimeout: 5 * time.Second}))
	s, err := concurrency.NewSession(c.Client())
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	outside := concurrency.NewElection(s, nodetest.Keys.Election())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	won := make(chan error, 1)
	go func() { won <- outside.Campaign(ctx, "outside") }()
	c.Eventually(func() bool { return len(inspect.Snapshot(c.Node(0).Cluster()).Queue) == 2 }, "it queues")
	c.AddNode()
	c.AddNode()
	c.Node(0).Stop()
	require.NoError(t, <-won)
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	meter := pace.StartMeter(t)
	began := time.Now()
	c.Node(1).Stop()
	require.Less(t, time.Since(began), meter.Scale(4*time.Second), "it does not wait for a planner that sleeps")
	c.Eventually(nodetest.IsBalanced(c, 1), "the last one has all")
}

// A function that ignores the end of its context does not keep a node from stopping.
func TestStopDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, nodetest.WithSharding(cluster.Sharding{Shards: 8, DrainTimeout: 50 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 1), "it has all")
	inside, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, c.Node(0).Cluster().Shards().Serve(context.Background(), "key", func(ctx context.Context,
			_ int64) error {
			close(inside)
			<-ctx.Done()
			<-end
			return nil
		}))
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.ErrorContains(t, c.Node(0).StopContext(ctx), "release the shards")
	require.Less(t, time.Since(began), 8*time.Second)
	close(end)
	<-ended
}

// OnAcquire can use the cluster, even for shards that are acquired at once.
func TestShardsAreThereWhenOnAcquireIsCalled(t *testing.T) {
	t.Parallel()
	var c *clustertest.Cluster
	var acquired, missing atomic.Int32
	nodes := make(chan *clustertest.Cluster, 1)
	c = clustertest.New(t, 0, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Labels = map[string]string{"first": []string{"yes", "no"}[min(i, 1)]}
		cfg.Sharding = cluster.Sharding{Shards: 64, Exclude: map[string]string{"first": "yes"},
			OnAcquire: func(context.Context, int, int64) {
				known := <-nodes
				nodes <- known
				acquired.Add(1)
				if known.Node(1).Cluster().Shards() == nil {
					missing.Add(1)
				}
			}}
	}))
	nodes <- c
	c.AddNode()
	second := c.NewNode()
	require.NoError(t, second.Start(t.Context()))
	c.Eventually(func() bool { return acquired.Load() == 64 }, "the second has all")
	require.Zero(t, missing.Load())
}
