package daemon

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/porttest"
)

func TestNodeWithItsOwnEtcd(t *testing.T) {
	t.Parallel()
	cfg := embeddedConfig(t)
	var before int64
	for range 2 { // the second run uses the data of the first
		d := startDaemon(t, cfg)
		st := d.waitReady(t)
		require.Equal(t, d.NodeAddress(), st.NodeID)
		require.Equal(t, d.NodeAddress(), st.LeaderID)
		require.Equal(t, "leader", st.State)
		require.Equal(t, []string{d.NodeAddress()}, st.Nodes)
		require.Greater(t, st.Token, before, "tokens grow across restarts")
		before = st.Token

		var leader httpapi.Leader
		require.Equal(t, http.StatusOK, getJSON(t, d.HTTPAddress(), "/cluster/leader", &leader))
		require.Equal(t, "http://"+d.HTTPAddress(), leader.APIURL)
		require.False(t, leader.Estimated)
		var health httpapi.Health
		getJSON(t, d.HTTPAddress(), "/cluster/health", &health)
		require.Equal(t, "v1", health.Version)
		require.Equal(t, httpapi.HealthHealthy, health.Status)

		d.stop()
		require.NoError(t, d.waitStopped(t))
		porttest.RequireFree(t, d.NodeAddress(), d.HTTPAddress())
	}
}

func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	first := startDaemon(t, joinConfig(t, e.Endpoint()))
	first.waitReady(t)
	second := startDaemon(t, joinConfig(t, e.Endpoint()))
	st := second.waitReady(t)
	require.Equal(t, []string{first.NodeAddress(), second.NodeAddress()}, st.Queue)
	require.Equal(t, first.NodeAddress(), st.LeaderID)

	first.stop()
	require.NoError(t, first.waitStopped(t))
	require.Eventually(t, func() bool { // its view may be a moment old
		st = second.waitReady(t)
		return st.LeaderID == second.NodeAddress() && len(st.Nodes) == 1
	}, patience, tick, "nothing of the first is left")
	require.Equal(t, []string{second.NodeAddress()}, st.Queue)
}

// The number of shards belongs to the cluster. A node with another number gets an error that names the flag.
func TestShards(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	cfg := joinConfig(t, e.Endpoint())
	cfg.Cluster.Sharding.Shards = 64
	first := startDaemon(t, cfg)
	first.waitReady(t)
	var page httpapi.Shards
	require.Eventually(t, func() bool {
		page = httpapi.Shards{}
		return getJSON(t, first.HTTPAddress(), "/cluster/shards", &page) == http.StatusOK && page.Held.Serving == 64
	}, patience, tick)
	require.Equal(t, 64, page.Owners[0].MayServe)
	require.Equal(t, first.NodeAddress(), page.NodeID)

	cfg = joinConfig(t, e.Endpoint())
	cfg.Cluster.Sharding.Shards = 65
	err := startDaemon(t, cfg).waitStopped(t)
	require.ErrorIs(t, err, cluster.ErrShardCount)
	require.EqualError(t, err, "--shards 65 is not this cluster's number, which is 64 and fixed: give --shards 64, "+
		"or --sharding off")
	cfg = joinConfig(t, e.Endpoint())
	cfg.Cluster.Sharding.Off = true
	without := startDaemon(t, cfg)
	without.waitReady(t)
	var body map[string]any
	require.Equal(t, http.StatusNotFound, getJSON(t, without.HTTPAddress(), "/cluster/shards", &body))
}

func TestWithoutHTTP(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	cfg := joinConfig(t, e.Endpoint())
	cfg.HTTP = ""
	quiet := startDaemon(t, cfg)
	require.Empty(t, quiet.HTTPAddress())
	loud := startDaemon(t, joinConfig(t, e.Endpoint()))
	require.Eventually(t, func() bool { return len(loud.waitReady(t).Nodes) == 2 }, patience, tick)
	quiet.stop()
	require.NoError(t, quiet.waitStopped(t))
}

func TestWhereToJoin(t *testing.T) {
	t.Parallel()
	for listen, says := range map[string]string{
		"127.0.0.1:0": `further nodes join with --etcd: etcd=127\.0\.0\.1:\d+ `,
		":0":          `further nodes join with --etcd, this host's address and the port: port=\d+ `,
		"0.0.0.0:0":   `further nodes join with --etcd, this host's address and the port: port=\d+ `,
	} {
		cfg := embeddedConfig(t)
		cfg.Etcd.ListenClient = listen
		d, log := startLogged(t, cfg)
		d.waitReady(t)
		d.stop()
		require.NoError(t, d.waitStopped(t))
		require.Regexp(t, says, log.String())
	}
}

func TestStoppingTheEtcdOfOthersIsWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = "[WARN]  goversed: stopping the embedded etcd: nodes that joined it have none now: nodes=1"
	first, log := startLogged(t, embeddedConfig(t))
	first.waitReady(t)
	cfg := joinConfig(t, first.etcd.Endpoint())
	cfg.StopTimeout = time.Second // etcd is gone by then
	second := startDaemon(t, cfg)
	require.Eventually(t, func() bool { return len(first.waitReady(t).Nodes) == 2 }, patience, tick)
	second.waitReady(t)
	first.stop()
	require.NoError(t, first.waitStopped(t))
	require.Contains(t, log.String(), warning)

	alone, log := startLogged(t, embeddedConfig(t))
	alone.waitReady(t)
	alone.stop()
	require.NoError(t, alone.waitStopped(t))
	require.NotContains(t, log.String(), "stopping the embedded etcd")
}

func TestReachable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "127.0.0.1:8", reachableAddress("127.0.0.1:8", "host:1"))
	require.Equal(t, "host:8", reachableAddress("0.0.0.0:8", "host:1"))
	require.Equal(t, "host:8", reachableAddress("[::]:8", "host:1"))
	require.Equal(t, "[::1]:8", reachableAddress("[::]:8", "[::1]:1"))
}
