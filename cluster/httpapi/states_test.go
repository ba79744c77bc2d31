package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// Every page of a node in every state answers as described in openapi.json, which serve checks.
func TestEveryPageInEveryState(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithTTL(3), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.RequestTimeout = 300 * time.Millisecond
		cfg.Labels = map[string]string{"zone": "a"}
	}))
	c.WaitLeaderIs(c.Node(0).Address())
	late := c.NewNode()
	handlers := map[*clustertest.Node]*router{}
	for _, n := range []*clustertest.Node{c.Node(0), c.Node(1), late} {
		handlers[n] = newRouter(n.Cluster(), func() objectView { return objectsOf(n.Cluster()) }, Options{Version: "v1",
			LeaderTimeout: 300 * time.Millisecond, Processors: func() []processor.Status { return processors() },
			Admin: &Admin{Authorize: BearerToken("ops", token), Timeout: 300 * time.Millisecond}})
	}
	// codes requests every page and every admin call, and returns the statuses by path.
	codes := func(n *clustertest.Node) map[string]int {
		out := map[string]int{}
		for _, rt := range handlers[n].routes {
			path := strings.Replace(rt.path, "{name}", "it", 1)
			if rt.stream {
				continue // it does not end
			}
			if rt.method == http.MethodPost {
				out[rt.path] = serve(handlers[n], post(path, `{"to":"127.0.0.1:1"}`)).Code
			} else {
				out[rt.path] = call(handlers[n], rt.method, path).Code
			}
		}
		return out
	}
	_, err := c.Node(1).Cluster().Elections().Stand("it")
	require.NoError(t, err)
	held, err := c.Node(1).Cluster().Locks().Acquire(etcdtest.Context(t), "it")
	require.NoError(t, err)
	defer func() { _ = held.Release(etcdtest.Context(t)) }() // it is lost with the session, below

	got := codes(late) // not started yet
	require.Equal(t, 503, got["/cluster/nodes"])
	require.Equal(t, 200, got["/cluster/status"])
	require.NoError(t, late.Start(etcdtest.Context(t)))
	for _, n := range []*clustertest.Node{c.Node(0), c.Node(1), late} {
		c.Eventually(func() bool { // on a busy machine a read may take too long
			got = codes(n)
			for _, path := range []string{"/readyz", "/metrics", "/cluster/leader", "/cluster/nodes", "/cluster/elections",
				"/cluster/locks", "/cluster/effects", "/cluster/objects", "/openapi.json"} {
				if got[path] != http.StatusOK {
					return false
				}
			}
			return got["/cluster/admin/transfer"] == http.StatusNotFound
		}, "all is shown")
	}

	c.Node(1).Faults().CutOff()
	c.Eventually(func() bool { return !c.Node(1).Cluster().Status().SessionValid }, "its session is over")
	began := time.Now()
	got = codes(c.Node(1))
	require.Less(t, time.Since(began), 20*time.Second)
	require.Equal(t, 503, got["/readyz"])
	require.Equal(t, 503, got["/cluster/elections"])
	require.Equal(t, 503, got["/cluster/leader"])
	require.Equal(t, 200, got["/cluster/nodes"], "it is what was seen last")
	c.Node(1).Faults().Reconnect()
	c.Eventually(func() bool { return c.Node(1).Cluster().Status().Ready }, "it is back")
	codes(c.Node(1))

	c.Node(0).Stop()
	remove := c.PutStrayKey(nodetest.Keys.ShardMap(), "{")
	c.Eventually(func() bool { return codes(late)["/cluster/shards"] == 503 }, "the map cannot be read")
	codes(c.Node(1))
	remove()
	codes(c.Node(0)) // stopped
	require.Equal(t, 503, codes(c.Node(0))["/cluster/admin/resign"])
}
