package leasequeue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// etcd drops the tokens of a user when its password is set, and then refuses further watches on a stream opened
// with one. They are opened on another stream; the watches on the old one continue.
func TestWatchesWhenTheTokenIsForgotten(t *testing.T) {
	t.Parallel()
	server, ctx := etcdtest.Start(t), etcdtest.Context(t)
	root, client, forget := etcdtest.EnableUser(t, server)
	prefix, err := state.NewKeys("/p")
	require.NoError(t, err)
	keys := prefix.Locks()
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client},
		TTL: time.Minute}, etcdsession.Hooks{})
	require.NoError(t, err)
	e, err := New(Config{Process: etcd.Process{Client: client}, Keeper: keeper}, keys)
	require.NoError(t, err)
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(running) })
	wg.Go(func() { e.Run(running) })
	defer wg.Wait()
	defer stop()
	q := e.Queues(keys)
	// wait makes an entry wait in a queue until its watch has reported something.
	wait := func(name string) {
		for range 2 {
			_, err := q.Enter(ctx, EntrySpec{Name: name})
			require.NoError(t, err)
		}
		require.Eventually(t, func() (watched bool) {
			_, err := root.Put(ctx, keys.QueuePrefix(name)+"a-b", "")
			require.NoError(t, err)
			e.withLock(func() {
				b := e.run.buckets[keys.BucketPrefix(name)]
				watched = b != nil && b.reportedRevision > 0
			})
			return watched
		}, 30*time.Second, 20*time.Millisecond)
	}
	wait("before")
	forget()
	wait("after")
	e.withLock(func() {
		require.Positive(t, e.run.buckets[keys.BucketPrefix("before")].reportedRevision, "its watch goes on")
	})
}
