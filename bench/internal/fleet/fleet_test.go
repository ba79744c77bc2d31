package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/member/inspect"
)

func TestAFleetLeavesNothing(t *testing.T) {
	p, client := testEtcd(t)
	ctx := patient(t)
	f, err := New(ctx, p.Endpoint, 3, cluster.Config{LeaderElectionTTL: 3600, Sharding: cluster.Sharding{Off: true}})
	require.NoError(t, err)
	require.NoError(t, f.Start(ctx))
	require.NoError(t, f.AwaitAgreement(ctx))
	require.Positive(t, f.Nodes[0].Ranges())

	lookout, err := Watch(ctx, client, "/goverse/")
	require.NoError(t, err)
	agreement := Follow(f.Nodes...)
	old := f.Leader()
	require.NotNil(t, old)
	agreement.Leave(old)
	agreement.Expect(inspect.Snapshot(old.Cluster).Queue[1].Address)
	require.NoError(t, old.Stop(ctx))
	_, err = agreement.Await(ctx)
	require.NoError(t, err)
	gone, err := lookout.Await(ctx, func(ev *clientv3.Event) bool { return ev.Type == clientv3.EventTypeDelete })
	require.NoError(t, err)
	require.NoError(t, f.AwaitRevision(ctx, gone.Kv.ModRevision, old))
	_, err = f.Replace(ctx, old)
	require.NoError(t, err)
	require.NoError(t, f.AwaitAgreement(ctx))

	mute := f.Leader()
	agreement.Leave(mute)
	agreement.Expect(inspect.Snapshot(mute.Cluster).Queue[1].Address)
	asked := mute.Ranges()
	lease := mute.Session().ID()
	mute.Mute()
	_, err = client.Revoke(ctx, lease)
	require.NoError(t, err)
	_, err = agreement.Await(ctx)
	require.NoError(t, err)
	require.Equal(t, lease, mute.Session().ID(), "it cannot find out that its lease is gone")
	require.Equal(t, asked, mute.Ranges())
	mute.Unmute()
	require.NoError(t, f.AwaitAgreement(ctx))
	agreement.Close()
	lookout.Close()

	require.NoError(t, f.Crash())
	keys, err := client.Get(ctx, "/goverse/leader", clientv3.WithRange("/goverse/shards0"), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.EqualValues(t, 2*len(f.Nodes), keys.Count, "a crash leaves every node's two keys")
	require.NoError(t, f.Revive(ctx))
	require.NoError(t, f.Start(ctx))
	require.NoError(t, f.AwaitAgreement(ctx))
	_, err = f.Orphans(ctx, client) // of the crash; usually none
	require.NoError(t, err)
	_, err = client.Grant(ctx, 600)
	require.NoError(t, err)
	orphans, err := f.Orphans(ctx, client)
	require.NoError(t, err)
	require.Equal(t, 1, orphans)
	require.NoError(t, f.AwaitAgreement(ctx))
	require.NoError(t, f.Stop(ctx))
	require.NoError(t, NothingAtEtcd(ctx, p, client))
}

func TestFleetsDrawFromBlocksOfTheirOwn(t *testing.T) {
	one, err := claimBlock()
	require.NoError(t, err)
	other, err := claimBlock()
	require.NoError(t, err)
	require.NotEqual(t, one.first, other.first)
	other.release()
	again, err := claimBlock()
	require.NoError(t, err)
	require.NotEqual(t, one.first, again.first)
	again.release()
	one.release()
}

func TestConnections(t *testing.T) {
	for _, n := range []int{1, OwnConns, OwnConns + 1, OwnConns + SharedConns, 1000} {
		count, nodes := Connections(n), map[int]int{}
		for i := range n {
			c := connection(i, count)
			require.Less(t, c, count)
			nodes[c]++
		}
		require.Len(t, nodes, count, "every connection has a node, of %d", n)
		for c := range min(n, OwnConns) {
			require.Equal(t, 1, nodes[c], "of %d nodes, %d shares its connection", n, c)
		}
	}
}
