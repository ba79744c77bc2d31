package consensusmanager_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// fewShards makes 8 shards move at once, without waiting for members. The nodes from number off on take no part in
// them.
func fewShards(off int) clustertest.Option {
	return clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Off: i >= off, Shards: 8, Window: time.Millisecond, DrainTimeout: time.Second,
			MovesPerMinute: 1 << 20}
	})
}

func addressesOf(members []consensusmanager.Member) (out []string) {
	for _, m := range members {
		out = append(out, m.Address)
	}
	return out
}

// All nodes name the same leader, members and owners, also the one that takes no part in the shards.
func TestNodesAgree(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, fewShards(2))
	views := make([]*consensusmanager.ConsensusManager, 3)
	for i, n := range c.Nodes() {
		views[i] = n.Cluster().GetConsensusManager()
	}
	first := views[0]
	c.Eventually(func() bool {
		owner, owned := first.Owner("a")
		for i, m := range views {
			other, ok := m.Owner("a")
			if !owned || !ok || other != owner || len(m.Members()) != 3 || m.GetLeaderNode() != c.Node(0).Address() ||
				m.IsLeader() != (i == 0) {
				return false
			}
		}
		return true
	}, "they see the same")
	term, leads := first.Term()
	require.True(t, leads)
	owner, _ := first.Owner("a")
	require.Positive(t, owner.Epoch)
	for i, m := range views {
		require.Equal(t, leaderelection.ModeElection, m.Mode())
		require.Equal(t, term.Token(), m.Leader().Token)
		_, leads := m.Term()
		require.Equal(t, i == 0, leads)
		other, ok := m.OwnerOf(shard.Of("a", 8))
		require.True(t, ok)
		require.Equal(t, owner, other)
		for _, none := range []int{-1, 8} {
			_, ok := m.OwnerOf(none)
			require.False(t, ok)
		}
		member, ok := m.Member(owner.Address)
		require.True(t, ok)
		require.Equal(t, owner.Incarnation, member.Incarnation)
		_, ok = m.Member("nobody:1")
		require.False(t, ok)
		require.Equal(t, c.Node(i).Cluster().Members(), m.Members())
	}
	shards := c.Node(2).Cluster().Shards()
	_, ok := shards.Owner("a")
	require.False(t, ok, "it takes no part")
	_, err := shards.WatchOwner(t.Context(), "a")
	require.ErrorIs(t, err, cluster.ErrShardingOff)
}

// Leader, members, and the owner of a shard are delivered at once and after each change. A slow receiver skips
// intermediate values, but never misses the newest.
func TestWatches(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	c := clustertest.New(t, 1, fewShards(9))
	m := c.Node(0).Cluster().GetConsensusManager()
	watching, cancel := context.WithCancel(ctx)
	members, err := m.WatchMembers(watching)
	require.NoError(t, err)
	await := func(addresses ...string) {
		t.Helper()
		for now := range members {
			if len(now) == len(addresses) {
				require.ElementsMatch(t, addresses, addressesOf(now))
				return
			}
		}
		t.Fatal("the channel was closed")
	}
	await(c.Node(0).Address())
	second := c.AddNode()
	await(c.Node(0).Address(), second.Address())
	third := c.AddNode()
	third.Stop()
	c.Eventually(func() bool { return len(m.Members()) == 2 }, "it has left")
	second.Stop() // without receivers
	c.Eventually(func() bool { return len(m.Members()) == 1 }, "it has left")
	await(c.Node(0).Address())

	cancel()
	for range members { // closes
	}
	byKey, err := m.WatchOwner(ctx, "a")
	require.NoError(t, err)
	byNumber, err := m.WatchOwnerOf(ctx, shard.Of("a", 8))
	require.NoError(t, err)
	for _, owners := range []<-chan shard.Owner{byKey, byNumber} {
		for o := range owners {
			if o.Address == c.Node(0).Address() {
				require.Positive(t, o.Epoch)
				break
			}
		}
	}
	leaders, err := m.WatchLeader(ctx)
	require.NoError(t, err)
	require.Equal(t, c.Node(0).Address(), (<-leaders).Address)
	again, err := m.WatchMembers(ctx)
	require.NoError(t, err)
	c.Node(0).Stop()
	for range byKey { // the node stops, so all of them close
	}
	for range byNumber {
	}
	for range leaders {
	}
	for range again {
	}
	_, err = m.WatchMembers(ctx)
	require.ErrorIs(t, err, cluster.ErrStopped)
}
