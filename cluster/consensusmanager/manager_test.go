package consensusmanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/basetest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// While the node does not run nothing is known, and everything that returns an error returns the reason.
func TestNodeDoesNotRun(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{lifecycle.ErrNotStarted, lifecycle.ErrStopped} {
		m, ctx := New(func() (*Runner, error) { return nil, reason }), t.Context()
		require.False(t, m.IsLeader())
		require.Zero(t, m.GetLeaderNode())
		require.Zero(t, m.Leader())
		require.Equal(t, leaderelection.ModeElection, m.Mode())
		require.Nil(t, m.Members())
		_, leads := m.Term()
		_, member := m.Member("a:1")
		_, ofKey := m.Owner("a")
		_, ofNumber := m.OwnerOf(0)
		require.False(t, leads || member || ofKey || ofNumber)
		for name, use := range map[string]func() error{
			"WaitForLeader": func() error { _, err := m.WaitForLeader(ctx); return err },
			"WatchLeader":   func() error { _, err := m.WatchLeader(ctx); return err },
			"WatchMembers":  func() error { _, err := m.WatchMembers(ctx); return err },
			"WatchOwner":    func() error { _, err := m.WatchOwner(ctx, "a"); return err },
			"WatchOwnerOf":  func() error { _, err := m.WatchOwnerOf(ctx, 0); return err },
		} {
			require.ErrorIs(t, use(), reason, name)
		}
	}
}

// The handle answers for a runner from its start until its end. IsLeader allocates nothing.
func TestHandleOfARunner(t *testing.T) { // not parallel, because it counts allocations
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	keys, err := state.NewKeys("/handle")
	require.NoError(t, err)
	base := basetest.Start(t, client, keys.Prefix(), 2*time.Second)
	r, err := NewRunner(Config{Process: etcd.Process{Client: client, Keys: keys, Address: "a:1"}, Mirror: base.Mirror,
		Keeper: base.Keeper})
	require.NoError(t, err)
	require.NoError(t, r.Start(ctx))
	m := New(func() (*Runner, error) { return r, nil })
	leader, err := m.WaitForLeader(ctx)
	require.NoError(t, err)
	require.Equal(t, "a:1", leader.Address)
	require.Equal(t, "a:1", m.GetLeaderNode())
	require.True(t, m.IsLeader())
	require.Zero(t, testing.AllocsPerRun(100, func() { m.IsLeader() }))
	require.Empty(t, m.Members(), "without a registration there is none")
	members, err := m.WatchMembers(ctx)
	require.NoError(t, err)
	require.Empty(t, <-members)

	owners, err := m.WatchOwnerOf(ctx, 5)
	require.NoError(t, err)
	require.Zero(t, <-owners, "there is no map yet")
	_, err = client.Put(ctx, keys.ShardMap(), `{"version":1,"shards":8,"generation":5,
		"grants":[{"address":"a:1","incarnation":2,"epoch":3,"shards":"0-6"}]}`)
	require.NoError(t, err)
	owner := shard.Owner{Address: "a:1", Incarnation: 2, Epoch: 3}
	require.Equal(t, owner, <-owners)
	of, owned := m.OwnerOf(6)
	require.True(t, owned)
	require.Equal(t, owner, of)
	_, owned = m.OwnerOf(7)
	require.False(t, owned, "the map names no owner")

	require.NoError(t, r.Withdraw(ctx))
	require.False(t, m.IsLeader())
	r.Close()
	_, open := <-members
	require.False(t, open, "Close ends the watches")
	_, err = m.WatchMembers(ctx)
	require.ErrorIs(t, err, lifecycle.ErrStopped)
}

// A member is what its record says. Members that linger are not registered any more.
func TestMembersOfASnapshot(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	record := func(address string, incarnation int64, r state.Record) state.KV {
		r.Lease = incarnation
		return state.KV{Key: keys.Node(address), Value: []byte(r.Encode()), CreateRevision: incarnation,
			ModRevision: incarnation, Lease: incarnation}
	}
	labels := map[string]string{"zone": "north"}
	before := state.BuildSnapshot(keys, 1, 9, []state.KV{
		record("a:1", 2, state.Record{Weight: 3, Shards: 8, Labels: labels, ElectionFailed: true, Reason: "denied"}),
		record("b:1", 3, state.Record{ElectionOnly: true, Observer: true, Reason: "of the past"}),
		record("c:1", 4, state.Record{Goverse: "v0.9.0", Formats: format.Range{Oldest: 1, Newest: 2}})})
	require.Equal(t, []Member{
		{Address: "a:1", Incarnation: 2, Weight: 3, Shards: 8, Labels: labels, ElectionFailed: "denied",
			OldestFormat: 1, NewestFormat: 1},
		{Address: "b:1", Incarnation: 3, Weight: 1, ElectionOnly: true, Observer: true, OldestFormat: 1, NewestFormat: 1},
		{Address: "c:1", Incarnation: 4, Weight: 1, Goverse: "v0.9.0", OldestFormat: 1, NewestFormat: 2}},
		membersOf(before))

	lingering := before.WithLingering(state.LingeringState{Member: before.Member("c:1")})
	require.NotNil(t, lingering.Member("c:1"))
	require.Len(t, membersOf(lingering), 2)
	_, registered := memberAt(before, "c:1")
	require.True(t, registered)
	_, registered = memberAt(lingering, "c:1")
	require.False(t, registered)
}
