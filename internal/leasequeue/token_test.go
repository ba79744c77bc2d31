package leasequeue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// etcd forgets the tokens of a user whose password is set, and refuses each further watch on a stream that was opened
// with one: it is opened on another stream, while the watches there are go on.
func TestWatchesWhenTheTokenIsForgotten(t *testing.T) {
	t.Parallel()
	server, ctx := etcdtest.Start(t), etcdtest.Context(t)
	etcdtest.EnableAuth(t, server.Client(), "secret", "u")
	as := func(user string) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: user,
			Password: "secret", Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	root, client := as("root"), as("u")
	all := clientv3.PermissionType(clientv3.PermReadWrite)
	_, err := root.RoleGrantPermission(ctx, "u", "/", "0", all)
	require.NoError(t, err)

	prefix, err := state.NewKeys("/p")
	require.NoError(t, err)
	keys := prefix.Locks()
	keeper, err := etcdsession.NewKeeper(etcdsession.KeeperConfig{Config: etcdsession.Config{Client: client,
		TTL: time.Minute}})
	require.NoError(t, err)
	e, err := New(Config{Client: client, Keeper: keeper}, keys)
	require.NoError(t, err)
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(running) })
	wg.Go(func() { e.Run(running) })
	defer wg.Wait()
	defer stop()
	q := e.Queues(keys)
	// wait has somebody wait in a queue, until its watch has reported something.
	wait := func(name string) {
		for range 2 {
			_, err := q.Enter(ctx, Want{Name: name})
			require.NoError(t, err)
		}
		require.Eventually(t, func() (watched bool) {
			_, err := root.Put(ctx, keys.Queue(name)+"a-b", "")
			require.NoError(t, err)
			e.with(func() {
				b := e.run.buckets[keys.Bucket(name)]
				watched = b != nil && b.reported > 0
			})
			return watched
		}, 30*time.Second, 20*time.Millisecond)
	}
	wait("before")
	_, err = root.UserChangePassword(ctx, "u", "secret")
	require.NoError(t, err)
	wait("after")
	e.with(func() { require.Positive(t, e.run.buckets[keys.Bucket("before")].reported, "its watch goes on") })
}
