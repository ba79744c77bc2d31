//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/pace"
)

// rollingPause is the limit for the longest handoff. The promise is 50 ms; a machine with other work needs
// more.
var rollingPause = flag.Duration("rolling.pause", time.Second,
	"how long a shard may have no owner while nodes are restarted; 50ms on a quiet machine")

const (
	rollingNodes = 5
	// stopTogether limits the time until all nodes have ended after concurrent requests to stop.
	stopTogether = 2 * time.Second
)

// mapLog holds all shard maps in the order in which they were written.
type mapLog struct {
	mu   sync.Mutex
	maps []*sharding.Map
}

func watchMaps(t *testing.T, client *clientv3.Client) *mapLog {
	t.Helper()
	keys, err := state.NewKeys(procs.Prefix)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w, done := &mapLog{}, make(chan struct{})
	// Watch from the beginning of this etcd.
	events := client.Watch(ctx, keys.ShardMap(), clientv3.WithRev(1))
	go func() {
		defer close(done)
		for resp := range events {
			for _, ev := range resp.Events {
				m, err := sharding.DecodeMap(ev.Kv.Value)
				if err != nil {
					t.Errorf("the shard map at revision %d: %v", ev.Kv.ModRevision, err)
					return
				}
				w.mu.Lock()
				w.maps = append(w.maps, m)
				w.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// count returns the number of maps written so far.
func (w *mapLog) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.maps)
}

// since returns the number of owner changes from the map at index first on, and the largest number for one
// shard.
func (w *mapLog) since(first int) (moves, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := map[int]int{}
	for i := first; i < len(w.maps); i++ {
		for shard := range w.maps[i].Shards() {
			before, _ := w.maps[i-1].Owner(shard)
			if after, _ := w.maps[i].Owner(shard); after != before {
				of[shard]++
				moves++
				most = max(most, of[shard])
			}
		}
	}
	return moves, most
}

// checkShardsSpread returns nil when the nodes serve all shards, each node its share.
func checkShardsSpread(t *testing.T, nodes []*procs.Node) error {
	for _, n := range nodes {
		serving, err := n.Metric(requestContext(t), "goverse_shards_serving")
		if err != nil {
			return err
		}
		if fair := shard.DefaultCount / len(nodes); int(serving) != fair && int(serving) != fair+1 {
			return fmt.Errorf("%s serves %v of %d shards: %w", n.Address, serving, shard.DefaultCount, errNotYet)
		}
	}
	return nil
}

// Nodes are restarted one after the other, as in a roll-out. Each shard moves away and back at most, and none
// is without an owner for long. The test runs alone, because it measures that time.
func TestRollingRestart(t *testing.T) {
	etcd := kit.StartEtcd(t, procs.Etcd37)
	client := etcd.Client(t, "", "")
	cfg := procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL} // a session that is lost would move shards, too
	nodes, watch := startNodes(t, cfg, rollingNodes)
	maps := watchMaps(t, client)
	procs.Await(t, patience, "the shards are spread", func() error { return checkShardsSpread(t, nodes) })

	var handed, quick float64
	add := func(n *procs.Node) {
		all, err := n.Metric(requestContext(t), `goverse_shards_handoff_pause_seconds_count`)
		require.NoError(t, err)
		within, err := n.Metric(requestContext(t), fmt.Sprintf(`goverse_shards_handoff_pause_seconds_bucket{le="%g"}`,
			rollingPause.Seconds()))
		require.NoError(t, err, "--rolling.pause has to be one of the histogram's bounds")
		handed, quick = handed+all, quick+within
	}
	for i, old := range nodes {
		first := maps.count()
		add(old)
		signalled := old.Signal(t, syscall.SIGTERM)
		require.Zero(t, old.Exit(t, patience), "a graceful stop")
		stopped := time.Since(signalled)
		again := cfg
		again.Listen = old.Address
		nodes[i] = kit.StartNode(t, again)
		watch.Add(nodes[i])
		procs.Await(t, patience, "the shards are spread again", func() error { return checkShardsSpread(t, nodes) })
		moves, most := maps.since(first)
		t.Logf("node %d: stopped in %v, all even again after %v; %d maps, %d moves, %d of one shard at most",
			i, stopped.Round(time.Millisecond), time.Since(signalled).Round(time.Millisecond), maps.count()-first, moves, most)
		require.LessOrEqual(t, most, 2, "away and back")
		require.InDelta(t, 2*shard.DefaultCount/rollingNodes, moves, rollingNodes, "no shard moves but those of the node")
	}
	for _, n := range nodes {
		add(n)
	}
	t.Logf("%v handoffs, %v of them within %v", handed, quick, *rollingPause)
	require.Greater(t, handed, 0.0)
	require.Equal(t, handed, quick, "a shard was nobody's for longer than %v", *rollingPause)

	// All stop at the same time, and none waits for another.
	meter, began := pace.StartMeter(t), time.Now()
	for _, n := range nodes {
		n.Signal(t, syscall.SIGTERM)
	}
	for _, n := range nodes {
		require.Zero(t, n.Exit(t, patience), "a graceful stop")
	}
	took := time.Since(began)
	t.Logf("all %d stopped at once in %v", rollingNodes, took.Round(time.Millisecond))
	require.Less(t, took, meter.Scale(stopTogether))
	for key := range procs.Keys(t, client, procs.Prefix) {
		require.True(t, strings.HasSuffix(key, "/shards/map"), "%s was left behind", key)
	}
}
