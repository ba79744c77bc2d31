package clustertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
)

// watching waits until the nodes together watch that many others.
func watching(c *Cluster, watches int64) {
	c.t.Helper()
	c.Eventually(func() bool {
		var sum int64
		for _, n := range c.Live() {
			sum += n.cluster.Status().Crashes.Watching
		}
		return sum == watches
	}, "%d watches", watches)
}

// first puts node 0 at distance d and leaves the others at no distance.
func first(d time.Duration) Option {
	return WithDistance(func(i int) time.Duration {
		if i == 0 {
			return d
		}
		return 0
	})
}

// TestNodeAtADistance checks that requests take the distance twice, and events once.
func TestNodeAtADistance(t *testing.T) {
	t.Parallel()
	const d = 100 * time.Millisecond
	c := New(t, 1, first(d))
	far := c.Node(0).client
	began := time.Now()
	_, err := far.Get(patient(t), "x")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 2*d)
	events := far.Watch(patient(t), "x", clientv3.WithCreatedNotify())
	<-events
	began = time.Now()
	_, err = c.Client().Put(patient(t), "x", "")
	require.NoError(t, err)
	<-events
	require.GreaterOrEqual(t, time.Since(began), d)

	c.Node(0).SetDistance(0)
	c.Eventually(func() bool {
		began := time.Now()
		_, err := far.Get(patient(t), "x")
		return err == nil && time.Since(began) < d
	}, "it is near")
	_, err = c.Client().Delete(patient(t), "x")
	require.NoError(t, err)
}

// TestNodeThatRefuses checks that a refusing node loses its connections, lives on, and is connected to again.
func TestNodeThatRefuses(t *testing.T) {
	t.Parallel()
	c := New(t, 2, WithTTL(30), WithEntrances(), detection(cluster.CrashDetection{GracePeriod: time.Second}))
	watching(c, 2)
	lease := c.Node(0).Lease()
	c.Node(0).Refuse()
	c.Eventually(func() bool { return c.Node(1).cluster.Status().Crashes.Refuted > 0 }, "it is accused, and refutes")
	c.Node(0).Accept()
	watching(c, 2)
	require.Equal(t, lease, c.Node(0).Lease())
	c.Node(0).Kill()
	c.Eventually(func() bool { return c.Node(1).cluster.Status().Crashes.Removals == 1 },
		"a node that is killed refuses as well")
}
