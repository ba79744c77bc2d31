package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// acquire makes a node wait for a lock, and returns a channel that delivers it.
func acquire(t *testing.T, c *clustertest.Cluster, n *clustertest.Node, name string) <-chan lock.Held {
	t.Helper()
	before := len(lockQueue(t, c, name))
	got := make(chan lock.Held, 1)
	go func() {
		defer close(got)
		if h, err := n.Cluster().Locks().Acquire(t.Context(), name); err == nil {
			got <- h
		}
	}()
	require.Eventually(t, func() bool { return len(lockQueue(t, c, name)) > before }, time.Minute, time.Millisecond)
	return got
}

func lockQueue(t *testing.T, c *clustertest.Cluster, name string) []string {
	t.Helper()
	resp, err := c.Client().Get(etcdtest.Context(t), nodetest.Keys.Locks().QueuePrefix(name), clientv3.WithPrefix())
	require.NoError(t, err)
	keys := []string{}
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// When a lock's holder ends, the lock is handed over: at once if the holder stops, and on detection of a crash if
// it dies.
func TestLockIsHandedOver(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(nodetest.LongTTL), nodetest.WithSharding(cluster.Sharding{Off: true}),
		nodetest.WithCrashDetection(cluster.CrashDetection{}))
	first := <-acquire(t, c, c.Node(0), "it")
	second, third := acquire(t, c, c.Node(1), "it"), acquire(t, c, c.Node(2), "it")

	go func() {
		<-first.Context().Done() // the work ends with its context
		_ = first.Release(context.Background())
	}()
	began := time.Now()
	c.Node(0).Stop()
	require.ErrorIs(t, context.Cause(first.Context()), lock.ErrStopped)
	h := <-second
	require.NotNil(t, h)
	require.Greater(t, h.Token(), first.Token())
	t.Logf("handed over %v after the stop began", time.Since(began))
	_, err := c.Node(0).Cluster().Locks().Acquire(t.Context(), "it")
	require.ErrorIs(t, err, lock.ErrStopped)

	began = time.Now()
	c.Node(1).Kill()
	last := <-third
	require.NotNil(t, last)
	t.Logf("handed over %v after the kill", time.Since(began))
	require.Less(t, time.Since(began), nodetest.LongTTL*time.Second/2, "not the lease has ended it")
	require.NoError(t, last.Release(t.Context()))
}

// Stop waits a limited time for locks that are not released; then the session ends them.
func TestStopWaitsForLocksBounded(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.WorkTimeout = 50 * time.Millisecond
	}))
	h := <-acquire(t, c, c.Node(0), "it")
	require.EqualError(t, c.Node(0).StopContext(t.Context()),
		"the stop was cut short: have the locks released: not done within WorkTimeout, 50ms, though the contexts have "+
			"ended: not released: \"it\": context deadline exceeded")
	require.False(t, h.Valid())
	require.ErrorIs(t, h.Release(t.Context()), lock.ErrLost)
	require.Empty(t, lockQueue(t, c, "it"))
}

// If a node dies in the middle of an effect, the others learn that the outcome is unknown.
func TestEffectOfADeadNodeIsUnknown(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithTTL(nodetest.LongTTL), nodetest.WithSharding(cluster.Sharding{Off: true}))
	inside, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Node(0).Cluster().Once(context.Background(), "mail", func(ctx context.Context, _ int64) ([]byte, error) {
			close(inside)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		ended <- err
	}()
	<-inside
	c.Node(0).Kill()
	_, err := c.Node(1).Cluster().Once(t.Context(), "mail", func(context.Context, int64) ([]byte,
		error) {
		panic("it runs")
	})
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, c.Node(0).Address(), unknown.By)
	require.ErrorIs(t, <-ended, once.ErrUnknown)

	var n atomic.Int32
	require.NoError(t, c.Node(1).Cluster().Effects().Resolve(t.Context(), "mail", unknown.Token, false, nil))
	r, err := c.Node(1).Cluster().Once(t.Context(), "mail", func(context.Context, int64) ([]byte, error) {
		n.Add(1)
		return []byte("sent"), nil
	})
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.EqualValues(t, 1, n.Load())
}
