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

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/test/etcdtest"
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

// etcd forgets the tokens of a user when the user's password is set, and refuses each further watch on a stream
// that was opened with one. A follower that comes then opens another stream and does not read the log again and
// again.
func TestFollowWhenTheTokenIsForgotten(t *testing.T) {
	t.Parallel()
	server, ctx, keys := etcdtest.Start(t), etcdtest.Context(t), keysUnder(t, "/p")
	root, client, forget := etcdtest.EnableUser(t, server)
	counted, watches := &reads{KV: client.KV}, etcdtest.ObserveWatches(client)
	client.KV = counted

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
	<-watches.Answered
	forget()
	second := follow()
	<-watches.Answered
	for i := range 5 {
		id := fmt.Sprint(i)
		require.NoError(t, recordEvents(ctx, root, keys, []event.Event{{ID: id, Type: event.NodeLeft, Time: time.Now()}}))
		for _, got := range []<-chan string{first, second} {
			select {
			case came := <-got:
				require.Equal(t, id, came)
			case <-watches.Answered:
				require.Fail(t, "a watch was refused, and is opened again")
			case <-ctx.Done():
				require.Fail(t, "it does not come")
			}
		}
	}
	require.EqualValues(t, 2, counted.n.Load(), "each has read the log once")
}

// readable is an etcd that answers reads and refuses watches.
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

// If watches are refused, the log is read less and less often, although the reads succeed.
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

// A watch may begin at a revision that etcd has compacted meanwhile. The events since then are still in the log.
func TestFollowWhenItsRevisionIsCompacted(t *testing.T) {
	t.Parallel()
	ctx, client, keys := etcdtest.Context(t), etcdtest.Start(t).Client(), keysUnder(t, "/p")
	record := func(id string) {
		require.NoError(t, recordEvents(ctx, client, keys, []event.Event{{ID: id, Type: event.NodeLeft, Time: time.Now()}}))
	}
	record("a")
	var got []string
	_ = Follow(ctx, client, keys, 0, func(e event.Event) error {
		if got = append(got, e.ID); e.ID == "b" {
			return context.Canceled
		}
		record("b")
		record("c")
		now, err := client.Get(ctx, "/")
		require.NoError(t, err)
		_, err = client.Compact(ctx, now.Header.Revision)
		require.NoError(t, err)
		return nil
	})
	require.Equal(t, []string{"a", "b"}, got)
}
