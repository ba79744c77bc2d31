package operator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	leaktest.Main(m)
}

const patience = 10 * time.Second

// testContext returns a context that ends only if a test hangs.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// openOperator returns an operator of the cluster, connected over TCP as in production.
func openOperator(t *testing.T, c *clustertest.Cluster) *Operator {
	t.Helper()
	return openOperatorAt(t, c.Etcd().Endpoint())
}

func openOperatorAt(t *testing.T, address string) *Operator {
	t.Helper()
	o, err := Open(t.Context(), cluster.Config{EtcdAddress: address, EtcdPrefix: "/goverse"}, patience)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

// requireNothingLeft fails if a request or its lease is left in etcd. Only leases of members may remain.
func requireNothingLeft(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	resp, err := c.Client().Get(testContext(t), nodetest.Keys.Request())
	require.NoError(t, err)
	require.Empty(t, resp.Kvs)
	leases, err := c.Client().Leases(testContext(t))
	require.NoError(t, err)
	d, err := openOperator(t, c).Read(testContext(t))
	require.NoError(t, err)
	require.Len(t, leases.Leases, len(d.Members))
}
