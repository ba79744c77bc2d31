//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

// The first copy leads. When it is killed or stopped, the next one leads.
func TestLeader(t *testing.T) {
	t.Parallel()
	const ttl = "3s" // the next one leads so long after a kill
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	leads := func(id string) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, err := etcd.Client().Get(ctx, "/example-data/leader")
			require.NoError(t, err)
			return len(got.Kvs) == 1 && string(got.Kvs[0].Value) == id
		}, 20*time.Second, 10*time.Millisecond)
	}
	first := trial.Program(t, "-etcd", etcd.Endpoint(), "-ttl", ttl, "-id", "first")
	leads("first")
	second := trial.Program(t, "-etcd", etcd.Endpoint(), "-ttl", ttl, "-id", "second")
	require.Eventually(t, func() bool { // until it is queued
		got, err := etcd.Client().Get(ctx, "/example/nodes/", clientv3.WithPrefix())
		require.NoError(t, err)
		return len(got.Kvs) == 2
	}, 20*time.Second, 10*time.Millisecond)
	_, err := first.Kill()
	require.NoError(t, err)
	leads("second")
	trial.Program(t, "-etcd", etcd.Endpoint(), "-ttl", ttl, "-id", "third")
	trial.StopWithin(t, 10*time.Second, second)
	leads("third")
}
