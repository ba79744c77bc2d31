package leaderelection_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

var (
	rounds = flag.Int("faults.rounds", 3, "how often each out-of-band change is made to each place in the queue; 100 is "+
		"the full run")
	changes = flag.Int("faults.changes", 50, "leader changes in a working election; 1000 is the full run")
)

// queue returns the queue as stored in etcd, in order.
func queue(t *testing.T, c *clustertest.Cluster) []*mvccpb.KeyValue {
	t.Helper()
	resp, err := c.Client().Get(etcdtest.Context(t), nodetest.Keys.Queue(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	return resp.Kvs
}

// queueKeys returns the keys of the queue.
func queueKeys(t *testing.T, c *clustertest.Cluster) (out []string) {
	t.Helper()
	for _, kv := range queue(t, c) {
		out = append(out, string(kv.Key))
	}
	return out
}

// queued returns the addresses in the queue.
func queued(t *testing.T, c *clustertest.Cluster) (out []string) {
	t.Helper()
	for _, kv := range queue(t, c) {
		out = append(out, string(kv.Value))
	}
	return out
}

// addresses returns the addresses of nodes.
func addresses(nodes []*clustertest.Node) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Address())
	}
	return out
}

// brief shortens the time-out of requests, for tests that wait for one.
func brief(_ int, cfg *cluster.Config) { cfg.RequestTimeout = 300 * time.Millisecond }
