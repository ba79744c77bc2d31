package daemon

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestNodeWithItsOwnEtcd(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	var before int64
	for range 2 { // the second run uses the data of the first
		d := run(t, cfg)
		st := d.ready(t)
		require.Equal(t, d.NodeAddress(), st.NodeID)
		require.Equal(t, d.NodeAddress(), st.LeaderID)
		require.Equal(t, "leader", st.State)
		require.Equal(t, []string{d.NodeAddress()}, st.Nodes)
		require.Greater(t, st.Token, before, "tokens grow across restarts")
		before = st.Token

		var leader httpapi.Leader
		require.Equal(t, http.StatusOK, get(t, d.HTTPAddress(), "/cluster/leader", &leader))
		require.Equal(t, "http://"+d.HTTPAddress(), leader.APIURL)
		require.False(t, leader.Estimated)
		var health httpapi.Health
		get(t, d.HTTPAddress(), "/cluster/health", &health)
		require.Equal(t, "v1", health.Version)
		require.Equal(t, httpapi.HealthHealthy, health.Status)

		d.stop()
		require.NoError(t, d.end(t))
		requireFree(t, d.NodeAddress(), d.HTTPAddress())
	}
}

func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	first := run(t, joining(t, e.Endpoint()))
	first.ready(t)
	second := run(t, joining(t, e.Endpoint()))
	st := second.ready(t)
	require.Equal(t, []string{first.NodeAddress(), second.NodeAddress()}, st.Queue)
	require.Equal(t, first.NodeAddress(), st.LeaderID)

	first.stop()
	require.NoError(t, first.end(t))
	require.Eventually(t, func() bool { // its view may be a moment old
		st = second.ready(t)
		return st.LeaderID == second.NodeAddress() && len(st.Nodes) == 1
	}, eventually, tick, "nothing of the first is left")
	require.Equal(t, []string{second.NodeAddress()}, st.Queue)
}

// The number of shards belongs to the cluster. A node with another number gets an error that names the flag.
func TestShards(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	cfg := joining(t, e.Endpoint())
	cfg.Cluster.Sharding.Shards = 64
	first := run(t, cfg)
	first.ready(t)
	var page httpapi.Shards
	require.Eventually(t, func() bool {
		page = httpapi.Shards{}
		return get(t, first.HTTPAddress(), "/cluster/shards", &page) == http.StatusOK && page.Held.Serving == 64
	}, eventually, tick)
	require.Equal(t, 64, page.Owners[0].MayServe)
	require.Equal(t, first.NodeAddress(), page.NodeID)

	cfg = joining(t, e.Endpoint())
	cfg.Cluster.Sharding.Shards = 65
	err := run(t, cfg).end(t)
	require.ErrorIs(t, err, cluster.ErrShardCount)
	require.EqualError(t, err, "--shards 65 is not this cluster's number, which is 64 and fixed: give --shards 64, "+
		"or --sharding off")
	cfg = joining(t, e.Endpoint())
	cfg.Cluster.Sharding.Off = true
	without := run(t, cfg)
	without.ready(t)
	var body map[string]any
	require.Equal(t, http.StatusNotFound, get(t, without.HTTPAddress(), "/cluster/shards", &body))
}

func TestWithoutHTTP(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	cfg := joining(t, e.Endpoint())
	cfg.HTTP = ""
	quiet := run(t, cfg)
	require.Empty(t, quiet.HTTPAddress())
	loud := run(t, joining(t, e.Endpoint()))
	require.Eventually(t, func() bool { return len(loud.ready(t).Nodes) == 2 }, eventually, tick)
	quiet.stop()
	require.NoError(t, quiet.end(t))
}

func TestWhereToJoin(t *testing.T) {
	t.Parallel()
	for listen, says := range map[string]string{
		"127.0.0.1:0": `further nodes join with --etcd: etcd=127\.0\.0\.1:\d+ `,
		":0":          `further nodes join with --etcd, this host's address and the port: port=\d+ `,
		"0.0.0.0:0":   `further nodes join with --etcd, this host's address and the port: port=\d+ `,
	} {
		cfg := embedded(t)
		cfg.Etcd.ListenClient = listen
		d, log := logged(t, cfg)
		d.ready(t)
		d.stop()
		require.NoError(t, d.end(t))
		require.Regexp(t, says, log.String())
	}
}

func TestStoppingTheEtcdOfOthersIsWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = "[WARN]  goversed: stopping the embedded etcd: nodes that joined it have none now: nodes=1"
	first, log := logged(t, embedded(t))
	first.ready(t)
	cfg := joining(t, first.etcd.Endpoint())
	cfg.StopTimeout = time.Second // etcd is gone by then
	second := run(t, cfg)
	require.Eventually(t, func() bool { return len(first.ready(t).Nodes) == 2 }, eventually, tick)
	second.ready(t)
	first.stop()
	require.NoError(t, first.end(t))
	require.Contains(t, log.String(), warning)

	alone, log := logged(t, embedded(t))
	alone.ready(t)
	alone.stop()
	require.NoError(t, alone.end(t))
	require.NotContains(t, log.String(), "stopping the embedded etcd")
}

func TestReachable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "127.0.0.1:8", reachable("127.0.0.1:8", "host:1"))
	require.Equal(t, "host:8", reachable("0.0.0.0:8", "host:1"))
	require.Equal(t, "host:8", reachable("[::]:8", "host:1"))
	require.Equal(t, "[::1]:8", reachable("[::]:8", "[::1]:1"))
}
