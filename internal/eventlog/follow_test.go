package eventlog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// reads counts the requests of a client.
type reads struct {
	clientv3.KV
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r.n.Add(1)
	return r.KV.Get(ctx, key, opts...)
}

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
// with one: a follower that comes then watches on another one, and does not read the log again and again.
func TestFollowWhenTheTokenIsForgotten(t *testing.T) {
	t.Parallel()
	server, ctx, keys := etcdtest.Start(t), etcdtest.Context(t), keysUnder(t, "/p")
	etcdtest.EnableAuth(t, server.Client(), "secret", "u")
	as := func(user string) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: user,
			Password: "secret", Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	root, client := as("root"), as("u")
	_, err := root.RoleGrantPermission(ctx, "u", "/", "0", clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	counted := &reads{KV: client.KV}
	watches := opened{Watcher: client.Watcher, c: make(chan struct{})}
	client.KV, client.Watcher = counted, watches

	running, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	follow := func() <-chan string {
		got := make(chan string, 100)
		followers.Go(func() {
			_ = Follow(running, client, keys, 0, func(e event.Event) error {
				got <- e.ID
				return nil
			})
		})
		return got
	}
	first := follow()
	<-watches.c
	_, err = root.UserChangePassword(ctx, "u", "secret")
	require.NoError(t, err)
	second := follow()
	<-watches.c
	for i := range 5 {
		id := fmt.Sprint(i)
		require.NoError(t, record(ctx, root, keys, []event.Event{{ID: id, Type: event.NodeLeft, Time: time.Now()}}))
		for _, got := range []<-chan string{first, second} {
			select {
			case came := <-got:
				require.Equal(t, id, came)
			case <-watches.c:
				require.Fail(t, "a watch was refused, and is opened again")
			case <-ctx.Done():
				require.Fail(t, "it does not come")
			}
		}
	}
	require.EqualValues(t, 2, counted.n.Load(), "each has read the log once")
}

// readable is an etcd that answers reads, and refuses watches.
type readable struct {
	clientv3.KV
	clientv3.Watcher
	reads atomic.Int64
}

func (r *readable) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r.reads.Add(1)
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 7}}, nil
}

func (r *readable) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	refusal := make(chan clientv3.WatchResponse, 1)
	refusal <- clientv3.WatchResponse{Canceled: true, Created: true}
	close(refusal)
	return refusal
}

// Where watches are refused the log is read less and less often, although that succeeds.
func TestFollowBacksOffWhereWatchesAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		etcd, keys := &readable{}, keysUnder(t, "/p")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, Follow(ctx, &clientv3.Client{KV: etcd, Watcher: etcd}, keys, 0,
			func(event.Event) error { return nil }))
		require.Less(t, etcd.reads.Load(), int64(15))
		require.Greater(t, etcd.reads.Load(), int64(8), "it goes on trying")
	})
}
