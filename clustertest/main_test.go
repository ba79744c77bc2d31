package clustertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// patient returns a context that ends only if a test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// detection configures the crash detection of every node.
func detection(d cluster.CrashDetection) Option {
	return WithConfig(func(_ int, cfg *cluster.Config) { cfg.CrashDetection = d })
}

// queueKeys returns the keys of the queue in etcd.
func queueKeys(t *testing.T, c *Cluster) (out []string) {
	t.Helper()
	resp, err := c.Client().Get(patient(t), c.keys.Queue(), clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		out = append(out, string(kv.Key))
	}
	return out
}

// caught waits until a request was caught.
func caught(t *testing.T, h *Held) {
	t.Helper()
	select {
	case <-h.Caught():
	case <-patient(t).Done():
		t.Fatal("no such request was made")
	}
}
