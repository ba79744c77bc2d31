package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// The figures of two nodes, while the second one joins and leaves again.
func TestShardFigures(t *testing.T) {
	etcd := etcdtest.Start(t)
	few := func(c *Config) { c.Sharding.Shards, c.Sharding.Window = 100, 20*time.Millisecond }
	serves := func(c *Cluster, shards int64) func() bool {
		return func() bool {
			st := c.Status().Shards
			return st.Serving == shards && st.Acquiring == 0 && st.Releasing == 0 && st.Waiting == 0
		}
	}
	a := start(t, etcd, few)
	require.Eventually(t, serves(a, 100), time.Minute, time.Millisecond)
	st := a.Status().Shards
	require.Equal(t, 100, st.Shards)
	table, err := a.ShardTable()
	require.NoError(t, err)
	require.Equal(t, 100, table.Count)
	require.Zero(t, st.Pauses.Count, "nothing moved")
	// The watch may deliver the map to its readers before the planner has etcd's response and counts it.
	counts := func(what func(shard.Stats) bool) {
		t.Helper()
		require.Eventually(t, func() bool { return what(a.Status().Shards) }, time.Minute, time.Millisecond)
	}
	counts(func(st shard.Stats) bool { return st.Plans == 1 && st.Assigned == 100 && st.PlanTime > 0 })

	b := start(t, etcd, few, func(c *Config) { c.Sharding.OnAcquire = func(context.Context, int, int64) {} })
	require.Eventually(t, serves(a, 50), time.Minute, time.Millisecond)
	require.Eventually(t, serves(b, 50), time.Minute, time.Millisecond)
	counts(func(st shard.Stats) bool { return st.Plans == 2 && st.Rebalanced == 50 })
	pauses := b.Status().Shards.Pauses
	require.EqualValues(t, 50, pauses.Count)
	require.Positive(t, pauses.Sum)
	require.EqualValues(t, 50, pauses.Buckets[len(pauses.Buckets)-1].Count)
	require.Zero(t, b.Status().Shards.Plans, "the leader plans")

	require.NoError(t, b.Stop(etcdtest.Context(t)))
	require.Eventually(t, serves(a, 100), time.Minute, time.Millisecond)
	counts(func(st shard.Stats) bool { return st.Drained == 50 })
	require.EqualValues(t, 50, a.Status().Shards.Pauses.Count)
	require.Zero(t, b.Status().Shards)
	require.Zero(t, start(t, etcd, func(c *Config) { c.Sharding.Off = true }).Status().Shards)
}
