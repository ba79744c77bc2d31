package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/node"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	leaktest.Main(m)
}

// ttl is that of newCluster's sessions, in seconds. No test waits until one has passed.
const ttl = 10

// newCluster returns a cluster at address that is not started.
func newCluster(t *testing.T, etcd *etcdtest.Server, address string, change ...func(*Config)) *Cluster {
	t.Helper()
	n, err := node.NewNode(node.Config{AdvertiseAddress: address})
	require.NoError(t, err)
	cfg := Config{EtcdAddress: etcd.Endpoint(), LeaderElectionTTL: ttl}
	for _, c := range change {
		c(&cfg)
	}
	c, err := NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(etcdtest.Context(t))) })
	return c
}

func start(t *testing.T, etcd *etcdtest.Server, change ...func(*Config)) *Cluster {
	t.Helper()
	c := newCluster(t, etcd, "127.0.0.1:0", change...)
	require.NoError(t, c.Start(etcdtest.Context(t)))
	return c
}

func (c *Cluster) address() string { return c.node.AdvertiseAddress() }

func awaitLeader(t *testing.T, c *Cluster, address string) {
	t.Helper()
	seen, err := c.WatchLeader(etcdtest.Context(t))
	require.NoError(t, err)
	for l := range seen {
		if l.Address == address {
			return
		}
	}
	t.Fatalf("%s never saw %s lead", c.address(), address)
}

func awaitState(t *testing.T, c *Cluster, cond func(*state.Snapshot) bool) *state.Snapshot {
	t.Helper()
	s, err := c.parts.Load().Mirror.Wait(etcdtest.Context(t), cond)
	require.NoError(t, err)
	return s
}

func electionOf(c *Cluster) *leaderelection.LeaderElection {
	return c.parts.Load().Consensus.Election()
}
