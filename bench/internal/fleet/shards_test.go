package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/member/inspect"
)

// One node of a fleet is killed. The others detect it by themselves and take over its shards.
func TestOneOfAFleetIsKilled(t *testing.T) {
	p, client := testEtcd(t)
	ctx := patient(t)
	const shards = 64
	f, err := New(ctx, p.Endpoint, 3, cluster.Config{LeaderElectionTTL: 3600,
		Sharding: cluster.Sharding{Shards: shards, Window: time.Millisecond}})
	require.NoError(t, err)
	_, err = f.served()
	require.Error(t, err, "none of them has started")
	require.NoError(t, f.Start(ctx))
	m, err := f.AwaitServed(ctx)
	require.NoError(t, err)
	require.Len(t, m.Loads(), 3)

	lookout, err := Watch(ctx, client, "/goverse/")
	require.NoError(t, err)
	dead := f.Nodes[1]
	key := inspect.Snapshot(dead.Cluster).Keys.Node(dead.Address)
	join, err := f.Kill(ctx, dead)
	require.NoError(t, err)
	f.Remove(dead)
	_, err = lookout.Await(ctx, Deleted(key))
	require.NoError(t, err)
	m, err = f.AwaitServed(ctx)
	require.NoError(t, err)
	require.Len(t, m.Loads(), 2)
	require.NoError(t, join())

	added, err := f.Add(ctx)
	require.NoError(t, err)
	require.Equal(t, dead.place, added.place)
	m, err = f.AwaitServed(ctx)
	require.NoError(t, err)
	require.Len(t, m.Loads(), 3)
	seen, err := lookout.Seen(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, seen)
	last := seen[len(seen)-1].Kv.ModRevision
	lookout.Forget()
	seen, err = lookout.Seen(ctx)
	require.NoError(t, err)
	for _, e := range seen { // the event log may be written a moment later
		require.Greater(t, e.Kv.ModRevision, last)
	}
	lookout.Close()

	require.NoError(t, f.Stop(ctx))
	_, err = client.Delete(ctx, "/goverse/shards/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.NoError(t, NothingAtEtcd(ctx, p, client))
}
