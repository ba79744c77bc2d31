package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Any node can make requests of any other node, and sees the result.
func TestRequestsOfAnotherNode(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 16, Window: 20 * time.Millisecond}
	}))
	first, second := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())
	c.Eventually(func() bool { return first.Cluster().Shards().Held() == 8 && second.Cluster().Shards().Held() == 8 },
		"each has its share")
	ctx, from := etcdtest.Context(t), second.Cluster()
	rows := func() map[string]cluster.MemberRow {
		table, err := from.MemberTable()
		require.NoError(t, err)
		out := map[string]cluster.MemberRow{}
		for _, m := range table.Members {
			out[m.Address] = m
		}
		return out
	}
	c.Eventually(func() bool { return rows()[first.Address()].Owned == 8 && !rows()[first.Address()].SeenSince.IsZero() },
		"it sees the shards and the members")
	require.Equal(t, cluster.MemberLeader, rows()[first.Address()].State)

	d, err := from.Drain(ctx, first.Address())
	require.NoError(t, err)
	require.Equal(t, cluster.Drained{Address: first.Address(), Incarnation: d.Incarnation, Draining: true, Changed: true,
		Before: 8, Leader: true}, d)
	require.Zero(t, first.Cluster().Shards().Held())
	require.True(t, rows()[first.Address()].Draining)
	_, err = first.Cluster().Drain(ctx, second.Address())
	require.ErrorIs(t, err, cluster.ErrDrainRefused)
	_, err = from.Drain(ctx, "127.0.0.1:1")
	require.ErrorIs(t, err, cluster.ErrUnknownNode)
	d, err = from.Undrain(ctx, first.Address())
	require.NoError(t, err)
	require.False(t, d.Draining)
	require.False(t, rows()[first.Address()].Draining)

	require.NoError(t, from.RequestResign(ctx))
	c.WaitQueue(second.Address(), first.Address())
	require.NoError(t, from.RequestResign(ctx), "the leader itself may ask, too")
	c.WaitLeaderIs(first.Address())

	second.Stop()
	_, err = from.Drain(ctx, first.Address())
	require.ErrorIs(t, err, cluster.ErrStopped)
	require.ErrorIs(t, from.RequestResign(ctx), cluster.ErrStopped)
	_, err = from.MemberTable()
	require.ErrorIs(t, err, cluster.ErrStopped)
}

// Elections and locks of other nodes are listed too.
func TestLists(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	ctx, here, there := etcdtest.Context(t), c.Node(0).Cluster(), c.Node(1).Cluster()
	e, err := there.Elections().Stand("outbox", leaderelection.Priority(3))
	require.NoError(t, err)
	leader, err := e.WaitForLeader(ctx) // from the view of its process, which can be later than IsLeader
	require.NoError(t, err)
	found, more, err := here.Elections().List(ctx, leaderelection.Query{})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, []leaderelection.Standing{{Name: "outbox", Leader: leader, Length: 1,
		Candidates: []leaderelection.Standby{{Address: c.Node(1).Address(), Priority: 3, Member: true}}}}, found)

	alone, err := there.Locks().Acquire(ctx, "alone")
	require.NoError(t, err)
	waiting, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = here.Locks().Acquire(waiting, "alone")
	}()
	var shared []lock.Held
	for _, node := range []*cluster.Cluster{here, there} {
		held, err := node.Locks().Acquire(ctx, "shared", lock.Shared())
		require.NoError(t, err)
		shared = append(shared, held)
	}
	want := map[string]lock.Standing{
		"alone": {Name: "alone", Holders: []lock.Holder{{Owner: c.Node(1).Address(), Token: alone.Token()}}, Length: 2},
		"shared": {Name: "shared", Shared: true, Length: 2, Holders: []lock.Holder{
			{Owner: c.Node(0).Address(), Token: shared[0].Token()}, {Owner: c.Node(1).Address(), Token: shared[1].Token()}}},
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		got, q := map[string]lock.Standing{}, lock.Query{Limit: 1}
		for more := true; more; {
			locks, goesOn, err := here.Locks().List(ctx, q)
			require.NoError(t, err)
			require.Len(t, locks, 1)
			got[locks[0].Name], q.After, more = locks[0], locks[0].Name, goesOn
		}
		require.Equal(t, want, got)
		all, more, err := here.Locks().List(ctx, lock.Query{})
		require.NoError(t, err)
		require.Len(t, all, 2, "the zero query selects all")
		require.False(t, more)
	}, 20*time.Second, 10*time.Millisecond)
	stop()
	<-gone
	for _, held := range append(shared, alone) {
		require.NoError(t, held.Release(ctx))
	}
}
