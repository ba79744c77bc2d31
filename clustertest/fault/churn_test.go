package fault

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/node"
)

// compacts waits until the churn has compacted away a revision.
func compacts(t *testing.T, c *Churn, revision int64) {
	t.Helper()
	require.Eventually(t, func() bool { return c.Stats().Compacted > revision }, patience, time.Millisecond)
}

func TestChurn(t *testing.T) {
	const keys = 10
	client := etcd(t).Client()
	old, err := client.Put(patient(t), "mine", "old")
	require.NoError(t, err)
	_, err = client.Put(patient(t), "mine", "new")
	require.NoError(t, err)
	at := clientv3.WithRev(old.Header.Revision)
	_, err = client.Get(patient(t), "mine", at)
	require.NoError(t, err, "the past can be read")

	c, err := StartChurn(patient(t), client, ChurnConfig{Prefix: "/busy/", Keys: keys,
		CompactEvery: 10 * time.Millisecond})
	require.NoError(t, err)
	compacts(t, c, old.Header.Revision)
	_, err = client.Get(patient(t), "mine", at)
	require.ErrorIs(t, err, rpctypes.ErrCompacted)
	watch := <-client.Watch(patient(t), "mine", at)
	require.ErrorIs(t, watch.Err(), rpctypes.ErrCompacted)
	compacts(t, c, c.Stats().Compacted) // and again

	require.Eventually(t, func() bool { return c.Stats().Writes > 2*keys }, patience, time.Millisecond)
	busy, err := client.Get(patient(t), "/busy/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.EqualValues(t, keys, busy.Count, "bounded")
	require.Len(t, busy.Kvs[0].Value, 1024)

	require.NoError(t, c.Stop(patient(t)))
	end := c.Stats()
	require.Zero(t, end.Failures, "%v", end.LastError)
	busy, err = client.Get(patient(t), "", clientv3.WithFromKey())
	require.NoError(t, err)
	require.EqualValues(t, 1, busy.Count, "only what was there before")
	// The first revision is 1; then come two writes here and the deletion at the end.
	require.EqualValues(t, 1+2+end.Writes+1, busy.Header.Revision, "nothing else was written")
	require.NoError(t, c.Stop(patient(t)))
}

// TestChurnGoesOn checks that requests fail while etcd is unreachable, and that the churn continues afterwards.
func TestChurnGoesOn(t *testing.T) {
	t.Parallel()
	r, client := through(t, etcd(t))
	c, err := StartChurn(patient(t), client, ChurnConfig{})
	require.NoError(t, err)
	compacts(t, c, 0)
	r.Blackhole(Both)
	require.Eventually(t, func() bool { return c.Stats().Failures > 0 }, patience, time.Millisecond)
	require.ErrorIs(t, c.Stats().LastError, context.DeadlineExceeded)
	before := c.Stats().Compacted
	require.NoError(t, r.Heal())
	compacts(t, c, before)
	require.NoError(t, c.Stop(patient(t)))
}

func TestChurnArguments(t *testing.T) {
	client := etcd(t).Client()
	for _, cfg := range []ChurnConfig{{Prefix: "/"}, {Prefix: "/no-slash"}, {Keys: -1}, {ValueSize: -1},
		{WritesPerSecond: -1}, {WritesPerSecond: 1e6 + 1}, {CompactEvery: -1}} {
		_, err := StartChurn(patient(t), client, cfg)
		require.ErrorIs(t, err, ErrChurnConfig, "%+v", cfg)
	}
	_, err := client.Put(patient(t), "/goverse-churn/mine", "value")
	require.NoError(t, err)
	_, err = StartChurn(patient(t), client, ChurnConfig{})
	require.ErrorIs(t, err, ErrChurnConfig, "it would be deleted at the end")
	require.NotNil(t, read(t, client, "/goverse-churn/mine"))
}

// TestNodeComesBackAfterACompaction shows the purpose of a churn: a returning node finds that the history from
// its last revision on is gone, reads everything again, and continues as the same member.
func TestNodeComesBackAfterACompaction(t *testing.T) {
	s := etcd(t)
	r, err := NewRelay(s.Endpoint())
	require.NoError(t, err)
	defer r.Close()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: r.Address(), LeaderElectionTTL: 60}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(patient(t)))
	defer func() { require.NoError(t, c.Stop(patient(t))) }()
	require.Eventually(t, c.IsLeader, patience, time.Millisecond)
	before := c.Status()

	churn, err := StartChurn(patient(t), s.Client(), ChurnConfig{CompactEvery: 10 * time.Millisecond})
	require.NoError(t, err)
	r.Refuse()
	last, err := s.Client().Get(patient(t), "any")
	require.NoError(t, err)
	// Further than the revision from which an up-to-date watch continues, because that one is kept.
	compacts(t, churn, last.Header.Revision+1)
	require.NoError(t, churn.Stop(patient(t)))
	require.NoError(t, r.Heal())
	require.Eventually(t, func() bool { return c.Status().Rebuilds > before.Rebuilds }, patience, time.Millisecond)
	require.True(t, c.IsLeader())
	require.Equal(t, before.Token, c.Status().Token)
}
