package leases

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patienceOfTest = 15 * time.Second

// watched returns a watcher of an etcd with a leader that is trusted or not, and a lease with a key for each
// TTL.
func watched(t *testing.T, believed bool, ttls ...int64) (*Watcher, *clientv3.Client, []clientv3.LeaseID) {
	client := etcdtest.Client(t)
	var ids []clientv3.LeaseID
	for _, ttl := range ttls {
		lease, err := client.Grant(t.Context(), ttl)
		require.NoError(t, err)
		_, err = client.Put(t.Context(), "/leases/who", "", clientv3.WithLease(lease.ID))
		require.NoError(t, err)
		ids = append(ids, lease.ID)
	}
	w := Watch(Config{Client: client, Prefix: "/leases/", Owner: func(string, string) string { return "who" },
		Leader: func(context.Context) (uint64, uint64, bool) { return 1, 1, believed }})
	t.Cleanup(func() { w.End() })
	return w, client, ids
}

// sees waits until there is the given number of keys and the watcher has looked often enough to see that.
func sees(t *testing.T, client *clientv3.Client, there int64) {
	t.Helper()
	for began := time.Now(); ; {
		resp, err := client.Get(t.Context(), "/leases/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		if resp.Count == there {
			break
		}
		require.Less(t, time.Since(began), patienceOfTest)
	}
	<-time.After(5 * checkInterval) // to check that nothing more happens
}

func TestALeaseThatEndsEarlyIsMarked(t *testing.T) {
	t.Parallel()
	w, client, ids := watched(t, true, 30)
	sees(t, client, 1)
	before := history.Now()
	_, err := client.Revoke(t.Context(), ids[0])
	require.NoError(t, err)
	after := history.Now()
	sees(t, client, 0)
	marks := w.End()
	require.Len(t, marks, 1)
	require.Equal(t, "who", marks[0].Node)
	require.Equal(t, history.RevokedByEtcd, marks[0].Name)
	require.Less(t, marks[0].From, after)
	require.Greater(t, marks[0].To, before)
}

func TestALeaseThatRunsOutIsNotMarked(t *testing.T) {
	t.Parallel()
	w, client, _ := watched(t, true, 2)
	sees(t, client, 1)
	sees(t, client, 0)
	require.Empty(t, w.End())
}

func TestALeaderThatIsNotBelievedCountsForNothing(t *testing.T) {
	t.Parallel()
	w, client, ids := watched(t, false, 30)
	sees(t, client, 1)
	_, err := client.Revoke(t.Context(), ids[0])
	require.NoError(t, err)
	sees(t, client, 0)
	require.Empty(t, w.End())
}
