// Package etcdtest runs an etcd for one test. It runs in the test's process, as fast as it can notice changes,
// and ends with the test. Tests that need faults use clustertest.
package etcdtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/embedetcd"
)

// patience is longer than a test needs on a busy machine.
const patience = time.Minute

// Context returns a context that ends with the test, or earlier if the test hangs.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Start starts an etcd and returns once it serves. The test may close it before its end.
func Start(t testing.TB) *embedetcd.Server {
	t.Helper()
	server, err := embedetcd.Start(Context(t), embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// Client returns the client of an etcd that has no other clients.
func Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return Dial(t, Start(t).Endpoint())
}

// Dial returns a client over TCP, with a connection of its own.
func Dial(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// EnableAuth turns etcd's access control on. root and the other users have the password, and each of the others
// has a role of the same name, without any permission. From then on etcd refuses a client without a user.
func EnableAuth(t testing.TB, client *clientv3.Client, password string, users ...string) {
	t.Helper()
	ctx := Context(t)
	for _, user := range append(users, "root") {
		if user != "root" {
			_, err := client.RoleAdd(ctx, user)
			require.NoError(t, err)
		}
		_, err := client.UserAdd(ctx, user, password)
		require.NoError(t, err)
		_, err = client.UserGrantRole(ctx, user, user)
		require.NoError(t, err)
	}
	_, err := client.AuthEnable(ctx)
	require.NoError(t, err)
}
