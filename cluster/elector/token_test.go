package elector_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// opened reports the watches that etcd has answered.
type opened struct {
	clientv3.Watcher
	c chan struct{}
}

func (o opened) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	responses := o.Watcher.Watch(ctx, key, opts...)
	select {
	case o.c <- struct{}{}:
	case <-ctx.Done():
	}
	return responses
}

// etcd forgets the tokens of a user whose password is set, and refuses each further watch on a stream that was opened
// with one: an elector that begins to watch then is notified of a change all the same, while the watch of another
// elector with the same client goes on.
func TestWatchLeaseWhenTheTokenIsForgotten(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	etcdtest.EnableAuth(t, s.server.Client(), "secret", "u")
	as := func(user string) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.server.Endpoint()}, Username: user,
			Password: "secret", Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	root, client := as("root"), as("u")
	_, err := root.RoleGrantPermission(s.ctx, "u", "/", "0", clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	watches := opened{Watcher: client.Watcher, c: make(chan struct{})}
	client.Watcher = watches

	running, stop := context.WithCancel(s.ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	// watch has an elector watch its record, and returns that, and how the watch ends.
	watch := func(name string) (*elector.Etcd, elector.Lease, <-chan error) {
		store := s.store(client, name)
		lease, err := store.CreateLease(s.ctx, elector.Lease{HolderIdentity: "a"})
		require.NoError(t, err)
		ended := make(chan error, 1)
		watching.Go(func() { ended <- store.WatchLease(running, lease.Version) })
		<-watches.c
		return store, lease, ended
	}
	_, _, before := watch("before")
	_, err = root.UserChangePassword(s.ctx, "u", "secret")
	require.NoError(t, err)
	store, lease, after := watch("after")
	_, err = store.UpdateLease(s.ctx, lease)
	require.NoError(t, err)
	require.NoError(t, <-after)
	require.Empty(t, before, "it goes on")
}
