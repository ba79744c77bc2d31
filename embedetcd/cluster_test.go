package embedetcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/porttest"
)

func TestThreeMembersSurviveOneStopping(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c, err := StartCluster(patient(t), 3, TestTiming(Config{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	t.Logf("three members serve after %v", time.Since(began))
	require.Len(t, c.Endpoints(), 3)

	remote := dial(t, c.Endpoints()...)
	_, err = remote.Put(patient(t), "key", "before")
	require.NoError(t, err)
	for i := range 3 {
		require.Equal(t, "before", value(t, c.Member(i).Client(), "key"))
	}

	leader := leaderOf(t, c)
	port := c.Member(leader).Endpoint()
	began = time.Now()
	require.NoError(t, c.StopMember(leader))
	t.Logf("the leader stopped within %v", time.Since(began))
	require.Nil(t, c.Member(leader))
	require.NoError(t, c.StopMember(leader), "stopped already")
	other := c.Member((leader + 1) % 3).Client()
	// Until etcd has elected another leader, requests fail, or are lost if they were on their way to the old
	// one. So write only after a linearizable read was answered.
	require.Eventually(t, func() bool {
		got, err := other.Get(patient(t), "key")
		return err == nil && len(got.Kvs) == 1 && string(got.Kvs[0].Value) == "before"
	}, 20*time.Second, 10*time.Millisecond)
	_, err = other.Put(patient(t), "key", "meanwhile")
	require.NoError(t, err)
	require.Equal(t, "meanwhile", value(t, remote, "key"))

	require.NoError(t, c.RestartMember(patient(t), leader))
	require.ErrorIs(t, c.RestartMember(patient(t), leader), ErrRunning)
	require.Equal(t, port, c.Member(leader).Endpoint())
	require.Equal(t, "meanwhile", value(t, c.Member(leader).Client(), "key"))
}

// leaderOf returns the index of the member that leads etcd's own cluster.
func leaderOf(t *testing.T, c *Cluster) int {
	t.Helper()
	for i := range c.Endpoints() {
		if s := c.Member(i).etcd.Server; s.Lead() == uint64(s.MemberID()) {
			return i
		}
	}
	t.Fatal("no member leads")
	return 0
}

func TestClusterCloseLeavesNothing(t *testing.T) {
	c, err := StartCluster(patient(t), 2, TestTiming(Config{}))
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, c.Close())
	t.Logf("closed within %v", time.Since(began))
	require.NoDirExists(t, c.dir)
	for _, cfg := range c.configs {
		porttest.RequireFree(t, cfg.ListenClient)
		porttest.RequireFree(t, cfg.Peers[cfg.Name])
	}
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.RestartMember(patient(t), 0), errClosed)
}

func TestClusterConfigRefused(t *testing.T) {
	_, err := StartCluster(patient(t), 0, Config{})
	require.ErrorIs(t, err, ErrConfig)
	for _, cfg := range []Config{
		{DataDir: "x"}, {ListenClient: "127.0.0.1:1"}, {Token: "x"},
		{Peers: map[string]string{"a": "127.0.0.1:1"}}, {ElectionTimeout: -1},
	} {
		_, err := StartCluster(patient(t), 3, cfg)
		require.ErrorIs(t, err, ErrConfig, "%+v", cfg)
	}
}
