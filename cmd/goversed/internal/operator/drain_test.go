package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// startSharded returns a cluster in which each node has its share of the shards.
func startSharded(t *testing.T, n, shards int) *clustertest.Cluster {
	t.Helper()
	c := clustertest.New(t, n, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: shards, Window: 20 * time.Millisecond}
	}))
	c.Eventually(func() bool {
		for _, node := range c.Nodes() {
			if node.Cluster().Shards().Held() < shards/n {
				return false
			}
		}
		return true
	}, "each has its share")
	return c
}

// progressRecorder records the calls of show.
type progressRecorder struct{ left, before []int }

func (d *progressRecorder) show(left, before int) {
	d.left, d.before = append(d.left, left), append(d.before, before)
}

func TestDrain(t *testing.T) {
	t.Parallel()
	c := startSharded(t, 2, 64)
	first, second := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())
	o := openOperator(t, c)
	var seen progressRecorder
	d, err := o.Drain(testContext(t), patience, first.Address(), seen.show)
	require.NoError(t, err)
	incarnation := inspect.Snapshot(first.Cluster()).Member(first.Address()).Incarnation
	require.Equal(t, Drained{Address: first.Address(), Incarnation: incarnation, Draining: true, Changed: true,
		Released: 32, Seconds: d.Seconds, Leader: true}, d)
	require.Equal(t, 32, seen.left[0])
	require.Zero(t, seen.left[len(seen.left)-1])
	require.Equal(t, 32, seen.before[0])
	require.Zero(t, first.Cluster().Shards().Held())
	require.True(t, first.IsLeader())
	c.Eventually(func() bool { return second.Cluster().Shards().Held() == 64 }, "the other has all")

	details, err := o.Read(testContext(t))
	require.NoError(t, err)
	for _, n := range details.Members {
		require.Equal(t, n.Address == first.Address(), n.Draining)
		require.False(t, n.Stopping)
		require.Equal(t, map[bool]string{true: "draining", false: "-"}[n.Draining], n.notes(false))
	}

	again, err := o.Drain(testContext(t), patience, first.Address(), (&progressRecorder{}).show)
	require.NoError(t, err)
	require.False(t, again.Changed)
	require.Zero(t, again.Released)
	_, err = o.Drain(testContext(t), patience, second.Address(), (&progressRecorder{}).show)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "no other node could take the shards of "+second.Address())

	d, err = o.Undrain(testContext(t), patience, first.Address())
	require.NoError(t, err)
	require.Equal(t, Drained{Address: first.Address(), Incarnation: incarnation, Changed: true, Seconds: d.Seconds,
		Leader: true}, d)
	c.Eventually(func() bool { return first.Cluster().Shards().Held() == 32 }, "it has its share again")
	d, err = o.Undrain(testContext(t), patience, first.Address())
	require.NoError(t, err)
	require.False(t, d.Changed)
	requireNoRequest(t, c)
}

// A call that does not end keeps the node from becoming empty. The error has the number of remaining shards,
// and the node continues to drain.
func TestDrainThatTakesTooLong(t *testing.T) {
	t.Parallel()
	c := startSharded(t, 2, 8)
	n := c.Node(1)
	shards := n.Cluster().Shards()
	key := "a"
	for {
		if owner, ok := shards.Owner(key); ok && owner.Address == n.Address() {
			break
		}
		key += "a"
	}
	inside, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, shards.Serve(context.Background(), key, func(context.Context, int64) error {
			close(inside)
			<-end
			return nil
		}))
	}()
	<-inside
	o := openOperator(t, c)
	ctx, interrupt := context.WithCancel(testContext(t))
	defer interrupt()
	var seen progressRecorder
	_, err := o.Drain(ctx, patience, n.Address(), func(left, before int) {
		seen.show(left, before)
		if left == 1 {
			interrupt()
		}
	})
	require.ErrorIs(t, err, ErrNotEmpty)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, n.Address()+" has 1 of 4 shards and goes on draining")
	require.ErrorContains(t, err, "goversed drain --undo "+n.Address()+" ends it")
	requireNoRequest(t, c)

	close(end)
	<-ended
	d, err := o.Drain(testContext(t), patience, n.Address(), (&progressRecorder{}).show)
	require.NoError(t, err)
	require.False(t, d.Changed, "it never stopped draining")
	requireNoRequest(t, c)
}

func TestDrainOfOneThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithTTL(10), clustertest.WithConfig(func(_ int,
		cfg *cluster.Config) {
		cfg.Sharding.Shards = 8
	}))
	c.Eventually(func() bool {
		return c.Node(0).Cluster().Shards().Held() == 4 && c.Node(1).Cluster().Shards().Held() == 4
	}, "each has its share")
	c.Node(1).Faults().FreezeWatch()
	_, err := openOperator(t, c).Drain(testContext(t), time.Second, c.Node(1).Address(), (&progressRecorder{}).show)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrNotEmpty)
	requireNoRequest(t, c)
	c.Node(1).Faults().ThawWatch()
}

func TestDrainsThatAreImpossible(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Sharding.Off, cfg.Observer, cfg.Sharding.MinMembers = i == 0, i > 0, 2
	}))
	o := openOperator(t, c)
	refused := func(address string, target error, says string) {
		t.Helper()
		_, err := o.Drain(testContext(t), patience, address, func(int, int) { t.Error("it began") })
		require.ErrorIs(t, err, target)
		require.ErrorContains(t, err, says)
		requireNoRequest(t, c)
	}
	refused("127.0.0.1:1", ErrNoNodes, "check --prefix")
	off := c.AddNode()
	refused("127.0.0.1:1", shardview.ErrUnknownNode, "no such node: 127.0.0.1:1; there are "+off.Address())
	refused(off.Address(), ErrRefused, "runs without sharding")
	on := c.AddNode()
	refused(on.Address(), shardview.ErrNoMap, "goversed shards plan shows what it waits for")
	c.AddNode()
	c.Eventually(func() bool { return on.Cluster().Shards().Held() == 4096 }, "it has its share")
	off.Stop()
	refused(on.Address(), ErrRefused, "there is no leader")
	_, err := o.Undrain(testContext(t), patience, "127.0.0.1:1")
	require.True(t, errors.Is(err, shardview.ErrUnknownNode))
}

// requireNoRequest fails if a request is left in etcd.
func requireNoRequest(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	for _, n := range c.Nodes() {
		resp, err := c.Client().Get(testContext(t), nodetest.Keys.Drain(n.Address()))
		require.NoError(t, err)
		require.Empty(t, resp.Kvs)
	}
}
