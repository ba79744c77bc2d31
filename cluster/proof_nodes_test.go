package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
)

// Nodes arm their watchers unless they have no silence time-out. They say so, and that these acknowledge.
func TestStatusCountsArmedWatchers(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(30), clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.CrashDetection.SilenceTimeout = []time.Duration{0, 15 * time.Second, -1}[i] // 0 is the default
	}))
	for i, n := range c.Nodes() {
		c.Eventually(func() bool {
			st := n.Cluster().Status()
			if i == 2 {
				return st.Watchers == 2
			}
			return st.ArmedWatchers == 2 && st.Proof == cluster.ProofAcknowledged
		}, "node %d is watched", i)
	}
	st := c.Node(2).Cluster().Status()
	require.Zero(t, st.ArmedWatchers, "its lease decides")
	require.Equal(t, cluster.ProofNone, st.Proof)
	require.Zero(t, st.Crashes.SilenceRemovals)
}
