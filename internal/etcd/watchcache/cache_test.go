package watchcache

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

func testKeys(t *testing.T) state.Keys {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	return keys
}

func run(t *testing.T, m *Mirror) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	select {
	case <-m.Ready():
	case <-etcdtest.Context(t).Done():
		t.Fatal("the mirror is not ready")
	}
}

// gate is a watcher that can hold its answers back, as a stream does that was cut without either side noticing.
type gate struct {
	clientv3.Watcher
	mu     sync.Mutex
	frozen bool
}

func (g *gate) freeze(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = on
}

func (g *gate) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in := g.Watcher.Watch(ctx, key, opts...)
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for resp := range in {
			g.mu.Lock()
			frozen := g.frozen
			g.mu.Unlock()
			if frozen && !resp.Created {
				continue
			}
			select {
			case out <- resp:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func gateWatches(client *clientv3.Client) (*clientv3.Client, *gate) {
	g := &gate{Watcher: client.Watcher}
	derived := clientv3.NewCtxClient(context.Background())
	derived.KV, derived.Lease, derived.Watcher = client.KV, client.Lease, g
	return derived, g
}

func queueLength(n int) func(*state.Snapshot) bool {
	return func(s *state.Snapshot) bool { return len(s.Queue) == n }
}

func TestFollowsEveryChange(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	_, err := client.Put(ctx, keys.Candidate(1), "a:1")
	require.NoError(t, err)
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys}})
	require.Nil(t, m.Snapshot())
	run(t, m)
	require.Len(t, m.Snapshot().Queue, 1, "what was there before")
	for i := range 50 {
		_, err := client.Put(ctx, keys.Candidate(int64(i+2)), "a:1")
		require.NoError(t, err)
	}
	_, err = m.Wait(ctx, queueLength(51))
	require.NoError(t, err)
	del, err := client.Delete(ctx, keys.Candidate(2))
	require.NoError(t, err)
	s, err := m.Wait(ctx, queueLength(50))
	require.NoError(t, err)
	require.Equal(t, del.Header.Revision, s.Revision)
	require.Zero(t, m.RebuildCount())

	read, err := ReadSnapshot(ctx, client, keys)
	require.NoError(t, err)
	require.Equal(t, read, s, "folded and read agree")
}

// A watch that stays silent is detected by a revision that is known to exist, and only by that. The mirror need
// not lack an event for that.
func TestFrozenWatchIsFoundOut(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	derived, g := gateWatches(client)
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys}, LagTimeout: 50 * time.Millisecond})
	run(t, m)
	g.freeze(true)
	put, err := client.Put(ctx, keys.Candidate(1), "a:1")
	require.NoError(t, err)
	m.ObserveHeader(put.Header, 0)
	s, err := m.Wait(ctx, queueLength(1))
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Revision, put.Header.Revision)
	require.Positive(t, m.RebuildCount())

	g.freeze(false)
	put, err = client.Put(ctx, keys.Candidate(2), "b:1")
	require.NoError(t, err)
	m.ObserveHeader(put.Header, 0)
	_, err = m.Wait(ctx, queueLength(2))
	require.NoError(t, err)
}

// Writes outside the range advance etcd's revision and bring no event. A progress report suffices, and nothing
// is read anew.
func TestRevisionsElsewhereAreNoLag(t *testing.T) {
	t.Parallel()
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	const lag = 600 * time.Millisecond // four times what etcd itself may take for the report
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys}, LagTimeout: lag})
	run(t, m)
	for i := range 5 {
		put, err := client.Put(ctx, "/elsewhere", fmt.Sprint(i))
		require.NoError(t, err)
		m.ObserveHeader(put.Header, 0)
	}
	require.Never(t, func() bool { return m.RebuildCount() > 0 }, 4*lag, lag/4)
}

// etcd vanishes between the read and the watch: opening the watch must not block forever.
func TestWatchThatIsNeverOpened(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	derived := clientv3.NewCtxClient(context.Background())
	derived.KV, derived.Watcher = client.KV, &silentWatcher{Watcher: client.Watcher, silent: 2}
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys}, LagTimeout: 50 * time.Millisecond})
	run(t, m)
	require.EqualValues(t, 1, m.RebuildCount(), "two watches to a read")
}

// silentWatcher does not open the first watches.
type silentWatcher struct {
	clientv3.Watcher
	silent int
}

func (w *silentWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if w.silent > 0 {
		w.silent--
		<-ctx.Done()
	}
	return w.Watcher.Watch(ctx, key, opts...)
}

func TestCompactionIsSurvived(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	derived, g := gateWatches(client)
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys}})
	run(t, m)
	g.freeze(true)
	var last int64
	for i := range 10 {
		put, err := client.Put(ctx, keys.Candidate(int64(i+1)), "a:1")
		require.NoError(t, err)
		last = put.Header.Revision
	}
	_, err := client.Compact(ctx, last)
	require.NoError(t, err)
	g.freeze(false)
	m.Rebuild("test")
	_, err = m.Wait(ctx, queueLength(10))
	require.NoError(t, err)
	require.False(t, m.Snapshot().Stale)
}

// etcd is replaced by one with a shorter history: the watch would wait for a revision that is far away.
func TestOtherHistoryIsTold(t *testing.T) {
	keys := testKeys(t)
	ctx := etcdtest.Context(t)
	first, second := etcdtest.Client(t), etcdtest.Client(t)
	for range 20 {
		_, err := first.Put(ctx, keys.Candidate(1), "a:1")
		require.NoError(t, err)
	}
	derived := clientv3.NewCtxClient(ctx)
	kv := &switchKV{KV: first}
	derived.KV, derived.Watcher = kv, first.Watcher
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys}})
	run(t, m)
	require.Zero(t, m.Snapshot().History)
	kv.set(second)
	m.Rebuild("test")
	s, err := m.Wait(ctx, func(s *state.Snapshot) bool { return s.History == 1 })
	require.NoError(t, err)
	require.Empty(t, s.Queue)
}

// The range was quiet, and the process knows the old history from elsewhere (a renewal's read). The restored
// etcd is behind that, though not behind the snapshot. One rebuild detects it, and no other follows.
func TestOtherHistoryOfAQuietRange(t *testing.T) {
	t.Parallel()
	keys := testKeys(t)
	ctx := etcdtest.Context(t)
	client := etcdtest.Client(t)
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys}, LagTimeout: 50 * time.Millisecond})
	run(t, m)
	m.ObserveHeader(&etcdserverpb.ResponseHeader{ClusterId: m.Snapshot().ClusterID, Revision: 3000}, 0)
	_, err := m.Wait(ctx, func(s *state.Snapshot) bool { return s.History == 1 })
	require.NoError(t, err)
	require.Less(t, m.KnownRevision(), int64(3000))
	before := m.RebuildCount()
	require.Never(t, func() bool { return m.RebuildCount() > before }, 300*time.Millisecond, 50*time.Millisecond)

	// An answer of another cluster, or one older than the known revision, is a sign.
	m.ObserveHeader(&etcdserverpb.ResponseHeader{ClusterId: 1, Revision: m.KnownRevision()}, 0)
	require.Eventually(t, func() bool { return m.RebuildCount() > before }, 5*time.Second, time.Millisecond)
}

type switchKV struct {
	mu sync.Mutex
	clientv3.KV
}

func (s *switchKV) set(kv clientv3.KV) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.KV = kv
}

func (s *switchKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	s.mu.Lock()
	kv := s.KV
	s.mu.Unlock()
	return kv.Get(ctx, key, opts...)
}

func TestSubscribersNeverHoldTheMirrorUp(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys}})
	run(t, m)
	lazy := m.Subscribe(nil)
	defer lazy.Close()
	for i := range 20 {
		_, err := client.Put(ctx, keys.Candidate(int64(i+1)), "a:1")
		require.NoError(t, err)
	}
	_, err := m.Wait(ctx, queueLength(20))
	require.NoError(t, err)
	require.Len(t, lazy.C, 1, "twenty changes make one signal")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = m.Wait(ended, queueLength(21))
	require.ErrorIs(t, err, context.Canceled)
}
