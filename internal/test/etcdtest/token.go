package etcdtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// EnableUser turns on etcd's access control, and returns a client of root and one of another user that may read and
// write all keys. forget makes etcd forget the other user's tokens, as it does when a password is set. The
// client then logs in again, but etcd refuses each further watch on a stream that was opened before.
func EnableUser(t testing.TB, server *Server) (root, client *clientv3.Client, forget func()) {
	t.Helper()
	const name, password = "u", "secret"
	EnableAuth(t, server.Client(), password, name)
	as := func(user string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: user, Password: password,
			Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	root, client = as("root"), as(name)
	_, err := root.RoleGrantPermission(Context(t), name, "/", "0", clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	return root, client, func() {
		_, err := root.UserChangePassword(Context(t), name, password)
		require.NoError(t, err)
	}
}

// Opened reports a client's watches: Answered receives a value each time etcd has answered the opening of a
// watch. Watch blocks until that value is received.
type Opened struct {
	clientv3.Watcher
	Answered chan struct{}
}

// ObserveWatches wraps the watches of a client in an Opened. Call it before the client is used.
func ObserveWatches(client *clientv3.Client) Opened {
	o := Opened{client.Watcher, make(chan struct{})}
	client.Watcher = o
	return o
}

// Watch implements clientv3.Watcher.
func (o Opened) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	responses := o.Watcher.Watch(ctx, key, opts...)
	select {
	case o.Answered <- struct{}{}:
	case <-ctx.Done():
	}
	return responses
}
