package watchcache

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// turns sends every second request to an endpoint that never answers, as a client does that has two endpoints,
// one of them bad.
type turns struct {
	mu   sync.Mutex
	sent int
}

func (t *turns) bad() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	return t.sent%2 == 0
}

type turnsKV struct {
	clientv3.KV
	*turns
}

func (kv turnsKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if kv.bad() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return kv.KV.Get(ctx, key, opts...)
}

type turnsWatcher struct {
	clientv3.Watcher
	*turns
}

func (w turnsWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if w.bad() {
		ch := make(chan clientv3.WatchResponse)
		go func() {
			<-ctx.Done()
			close(ch)
		}()
		return ch
	}
	return w.Watcher.Watch(ctx, key, opts...)
}

// The good endpoint gets the read and the bad one the watch, and the next read goes to the good one again: the
// mirror has to break that cycle.
func TestBadEndpointOfTwo(t *testing.T) {
	t.Parallel()
	for first := range 2 {
		client, keys := etcdtest.Client(t), testKeys(t)
		pairs := &turns{sent: first}
		derived := clientv3.NewCtxClient(context.Background())
		derived.KV, derived.Watcher = turnsKV{client.KV, pairs}, turnsWatcher{client.Watcher, pairs}
		m := New(Config{
			Process:    etcd.Process{Client: derived, Keys: keys, RequestTimeout: 100 * time.Millisecond},
			LagTimeout: 100 * time.Millisecond})
		run(t, m)
		_, err := client.Put(etcdtest.Context(t), keys.Candidate(1), "a:1")
		require.NoError(t, err)
		_, err = m.Wait(etcdtest.Context(t), queueLength(1))
		require.NoError(t, err)
	}
}

// leaderless refuses reads that require a leader, and leaves others unanswered.
type leaderless struct{ clientv3.KV }

func (leaderless) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md[rpctypes.MetadataRequireLeaderKey]) == 1 {
		return nil, rpctypes.ErrNoLeader
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestReadIsRefusedWithoutALeader(t *testing.T) {
	client := clientv3.NewCtxClient(context.Background())
	client.KV = leaderless{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := ReadSnapshot(ctx, client, testKeys(t))
	require.ErrorIs(t, err, rpctypes.ErrNoLeader)
}
