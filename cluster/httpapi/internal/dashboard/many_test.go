package dashboard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

const manyShards = 8192

// hostile is text that would run if it were treated as HTML.
const hostile = `<img src="http://example.invalid/x" onerror="document.title='taken'"><style>body{display:none}</style>`

// many returns a cluster of n members. The first is a node. The others are records on their own leases, as nodes
// write them, some with long names, labels and open moves.
func many(t *testing.T, n int) *clustertest.Cluster {
	t.Helper()
	c := clustertest.New(t, 1, clustertest.WithTTL(10), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: manyShards, MinMembers: n}
		cfg.CrashDetection.Off = true // the members have no processes that could be found dead
		cfg.Version, cfg.Labels = "v1.4.0", map[string]string{"zone": "eu-1a"}
	}))
	ctx := etcdtest.Context(t)
	var leases []clientv3.LeaseID
	var drains func() // begins a drain of one of them, which will not end
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, id := range leases {
			_, err := c.Client().Revoke(ctx, id)
			require.NoError(t, err)
		}
	})
	for i := 1; i < n; i++ {
		granted, err := c.Client().Grant(ctx, 600)
		require.NoError(t, err)
		leases = append(leases, granted.ID)
		address := fmt.Sprintf("10.4.%d.%d:47001", i/20, i%20+10)
		labels := map[string]string{"zone": fmt.Sprintf("eu-1%c", 'a'+i%3), "pool": []string{"web", "batch"}[i%2]}
		if i == 42 {
			address = "a-node-with-quite-a-long-name-0042.eu-central-1.compute.example.internal:47001"
			labels["note"] = hostile
		}
		r := state.Record{InstanceID: fmt.Sprint("i", i), Lease: int64(granted.ID), TTL: 600, Version: "v1.4.0",
			Hostname: fmt.Sprintf("worker-%02d", i), HTTPAddress: fmt.Sprintf("10.4.%d.%d:48001", i/20, i%20+10),
			Shards: manyShards, Weight: 1, Observer: i > 90,
			Labels: labels}
		if i%9 == 0 {
			r.Weight, r.RoundTripMS = 2, 10
		}
		put := func() {
			_, err := c.Client().Put(ctx, clustertest.Prefix+"/nodes/"+address, r.Encode(), clientv3.WithLease(granted.ID))
			require.NoError(t, err)
		}
		put()
		if i == 7 {
			drains = func() {
				r.Draining = true
				put()
			}
		}
		if !r.Observer {
			_, err = c.Client().Put(ctx, fmt.Sprintf("%s/leader/%x", clustertest.Prefix, granted.ID), address,
				clientv3.WithLease(granted.ID))
			require.NoError(t, err)
		}
	}
	c.Eventually(func() bool {
		table, err := c.Node(0).Cluster().ShardTable()
		return err == nil && len(table.Owners) == n
	}, "there is a map")
	drains()
	c.Eventually(func() bool {
		table, err := c.Node(0).Cluster().ShardTable()
		return err == nil && table.OpenMoves > 0
	}, "moves are open")
	return c
}

// With a hundred nodes, all are in the table and in the legend, and the filter finds them. On a phone only
// elements with a region of their own are wider than the page.
func TestAHundredNodes(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := many(t, 100)
	origin := serve(t, handler(c, 0))
	p := b.Open(t, phone, origin+"/")
	p.Await(t, count("#nodes tbody tr", 100))
	p.Await(t, `document.querySelectorAll("#legend li").length >= 99`)
	for _, width := range []int64{360, 768, 1280} {
		p.SetView(t, browser.View{Width: width, Height: 740})
		require.Zero(t, browser.Eval[float64](t, p,
			`document.documentElement.scrollWidth - document.documentElement.clientWidth`), "at %d", width)
	}
	require.True(t, browser.Eval[bool](t, p, `(document.querySelector("#filter").focus(), true)`))
	p.Press(t, "zone=eu-1b draining")
	p.Await(t, count("#nodes tbody tr", 1))
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#nodes tbody").textContent`), "worker-07")
	require.Equal(t, "1 of 100 nodes", browser.Eval[string](t, p, `document.querySelector("#nodes-note").textContent`))
	// A node's texts are shown as text.
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#filter").value = "onerror"`)+
		` && document.querySelector("#filter").dispatchEvent(new Event("input"))`))
	p.Await(t, count("#nodes tbody tr", 1))
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#nodes tbody").textContent`), hostile)
	require.True(t, browser.Eval[bool](t, p, count("#nodes img, body style", 0)))
	// Sorted by place, the leader comes first.
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#filter").value = ""`)+
		` && document.querySelector("#filter").dispatchEvent(new Event("input"))`))
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("[data-name=Place]").click()`)))
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#nodes tbody tr").textContent`),
		c.Node(0).Address())
	// The picture shows each shard as in the map.
	p.Await(t, do(`document.querySelector("#zoom").open = true`)+` && document.querySelector("#map").height > 100`)
	require.True(t, browser.Eval[bool](t, p, `(document.querySelector("#map").focus(), true)`))
	p.Press(t, browser.ArrowRight)
	p.Await(t, `/^Shard 0: owner .*, epoch \d+/.test(document.querySelector("#shard-news").textContent)`)
	p.RequireClean(t, origin)
}
