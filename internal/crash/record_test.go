package crash_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// A member with an unreadable record is not accused, because that may be a process without a server. If its record says
// so only after an accusation, that is withdrawn, and it is not removed.
func TestProcessWithoutServerIsNotRemoved(t *testing.T) {
	t.Parallel()
	const nothingListens = "127.0.0.1:1"
	log := &logtest.Buffer{}
	c := clustertest.New(t, 2, clustertest.WithTTL(nodetest.LongTTL), clustertest.WithPatience(time.Minute),
		nodetest.WithCrashDetection(cluster.CrashDetection{GracePeriod: 3 * time.Second}),
		clustertest.WithLogger(log.Logger()))
	nodetest.AwaitWatched(t, c, 2, 1)
	ctx, client := etcdtest.Context(t), c.Client()
	keys := inspect.Snapshot(c.Node(0).Cluster()).Keys
	lease, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	register := func(value string) {
		_, err := client.Put(ctx, keys.Node(nothingListens), value, clientv3.WithLease(lease.ID))
		require.NoError(t, err)
	}
	register("altered")
	c.Eventually(func() bool { return log.Count("cannot watch a member") >= 2 }, "both have tried often")
	require.Zero(t, nodetest.CrashStats(c).Accusations, "it is not accused")

	record := state.Record{InstanceID: "other", Lease: int64(lease.ID), TTL: 60}
	register(record.Encode())
	c.Eventually(func() bool { return nodetest.CrashStats(c).Accusations > 0 }, "it is accused")
	record.ElectionOnly = true
	register(record.Encode())
	c.Eventually(func() bool {
		s := inspect.Snapshot(c.Node(0).Cluster())
		return s.Member(nothingListens).ElectionOnly && len(s.Accusations) == 0
	}, "the accusation is withdrawn")
	require.Zero(t, nodetest.CrashStats(c).Removals)
	_, err = client.Revoke(ctx, lease.ID)
	require.NoError(t, err)
}
