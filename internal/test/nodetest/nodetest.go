// Package nodetest extends clustertest.Cluster for Goverse's own tests: it reads the keys in etcd, crash
// detection and shards, and checks whether two nodes ever led at once.
package nodetest

import (
	"cmp"
	"testing"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// LongTTL is a TTL in seconds that is so long that no lease expires during a test.
const LongTTL = 60

// Keys are the keys of every clustertest.Cluster in its etcd.
var Keys = defaultKeys()

func defaultKeys() state.Keys {
	k, err := state.NewKeys(clustertest.Prefix)
	if err != nil {
		panic(err) // the prefix is a constant
	}
	return k
}

// AwaitCaught waits until a request was caught.
func AwaitCaught(t testing.TB, h *clustertest.Held) {
	t.Helper()
	select {
	case <-h.Caught():
	case <-etcdtest.Context(t).Done():
		t.Fatal("no such request was made")
	}
}

// WithCrashDetection configures every node's crash detection, without a silence time-out if d has none: only evidence
// that a process is gone removes its node then, or the end of its lease.
func WithCrashDetection(d cluster.CrashDetection) clustertest.Option {
	d.SilenceTimeout = cmp.Or(d.SilenceTimeout, -1)
	return clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.CrashDetection = d })
}

// CrashStats returns the sum of the live nodes' crash detection counters.
func CrashStats(c *clustertest.Cluster) crash.Stats {
	var sum crash.Stats
	for _, n := range c.Live() {
		st := n.Cluster().Status().Crashes
		sum.Watching += st.Watching
		sum.Accusations += st.Accusations
		sum.Removals += st.Removals
		sum.Refuted += st.Refuted
		sum.Refutations += st.Refutations
		sum.WatchersLost += st.WatchersLost
	}
	return sum
}

// AwaitWatched waits until each of the n nodes watches k others.
func AwaitWatched(t testing.TB, c *clustertest.Cluster, n, k int) {
	t.Helper()
	c.Eventually(func() bool { return CrashStats(c).Watching == int64(n*k) }, "%d nodes watch %d each", n, k)
}
