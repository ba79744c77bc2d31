package watchcache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// proxyWatcher answers watches as `etcd grpc-proxy` does: when it joins a watch to another one it does not name
// its etcd, and it reports no progress.
type proxyWatcher struct {
	clientv3.Watcher
	keys state.Keys
	id   uint64 // cluster id to answer with instead

	mu     sync.Mutex
	opened int
	mute   int // number of first watches that deliver only that they were opened; -1: all
}

func (w *proxyWatcher) RequestProgress(context.Context) error { return nil }

func (w *proxyWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	w.mu.Lock()
	w.opened++
	nth := w.opened
	w.mu.Unlock()
	in := w.Watcher.Watch(ctx, key, opts...)
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for resp := range in {
			w.mu.Lock()
			mute := nth <= w.mute || w.mute < 0
			w.mu.Unlock()
			switch {
			case w.id != 0:
				resp.Header.ClusterId = w.id
			case resp.Created && key == w.keys.RangeStart():
				resp.Header.ClusterId, resp.Header.MemberId = 0, 0
			case mute && !resp.Created:
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

func (w *proxyWatcher) watches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

func (w *proxyWatcher) silence(mute int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = mute
}

// proxyLag is short, but longer than a busy machine takes for a small read or an event.
const proxyLag = 150 * time.Millisecond

func behindAProxy(t *testing.T, w *proxyWatcher) (*Mirror, *clientv3.Client, *logtest.Buffer) {
	t.Helper()
	client, keys := etcdtest.Client(t), testKeys(t)
	w.Watcher, w.keys = client.Watcher, keys
	derived := clientv3.NewCtxClient(context.Background())
	derived.KV, derived.Watcher = client.KV, w
	log := &logtest.Buffer{}
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys, Logger: log.Logger()}, LagTimeout: proxyLag})
	run(t, m)
	return m, client, log
}

// While others write, a small read shows that nothing is missing. The log reports the proxy once.
func TestBehindAProxyNothingIsReadAnew(t *testing.T) {
	t.Parallel()
	w := &proxyWatcher{}
	m, client, log := behindAProxy(t, w)
	ctx, keys := etcdtest.Context(t), testKeys(t)
	began := time.Now()
	for i := 0; time.Since(began) < 20*proxyLag; i++ {
		put, err := client.Put(ctx, "/elsewhere", fmt.Sprint(i))
		require.NoError(t, err)
		m.ObserveHeader(put.Header, 0)
	}
	for i := range 3 {
		_, err := client.Put(ctx, keys.Candidate(int64(i+1)), "a:1")
		require.NoError(t, err)
		_, err = m.Wait(ctx, queueLength(i+1))
		require.NoError(t, err)
	}
	require.Zero(t, m.RebuildCount())
	require.Equal(t, 2, w.watches(), "the second is of a range of its own")
	require.Equal(t, 1, strings.Count(log.String(), "grpc-proxy"), log)
}

// The proxy may lose a watch without a notification. A comparison then detects the change, whether a key was
// added or deleted.
func TestWatchThatAProxyLostIsFoundOut(t *testing.T) {
	t.Parallel()
	w := &proxyWatcher{}
	m, client, _ := behindAProxy(t, w)
	ctx, keys := etcdtest.Context(t), testKeys(t)
	_, err := client.Put(ctx, keys.Candidate(1), "a:1")
	require.NoError(t, err)
	_, err = m.Wait(ctx, queueLength(1))
	require.NoError(t, err)

	w.silence(-1)
	deleted, err := client.Delete(ctx, keys.Candidate(1))
	require.NoError(t, err)
	m.ObserveHeader(deleted.Header, 0)
	_, err = m.Wait(ctx, queueLength(0))
	require.NoError(t, err)
	require.EqualValues(t, 1, m.RebuildCount())

	put, err := client.Put(ctx, keys.Candidate(2), "a:1")
	require.NoError(t, err)
	m.ObserveHeader(put.Header, 0)
	_, err = m.Wait(ctx, queueLength(1))
	require.NoError(t, err)
	require.EqualValues(t, 2, m.RebuildCount())
}

// firstIsDead is a watcher with a first watch that is opened and delivers nothing else.
type firstIsDead struct {
	clientv3.Watcher
	opened atomic.Int32
}

func (w *firstIsDead) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in := w.Watcher.Watch(ctx, key, opts...)
	if w.opened.Add(1) > 1 {
		return in
	}
	out := make(chan clientv3.WatchResponse, 1)
	go func() {
		defer close(out)
		out <- <-in
		<-ctx.Done()
	}()
	return out
}

// A dead stream to etcd is abandoned for another one, and because nothing is missing, nothing is read anew.
func TestDeadWatchMovesOver(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	w := &firstIsDead{Watcher: client.Watcher}
	derived := clientv3.NewCtxClient(ctx)
	derived.KV, derived.Watcher = client.KV, w
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys}, LagTimeout: proxyLag})
	run(t, m)
	put, err := client.Put(ctx, "/elsewhere", "x")
	require.NoError(t, err)
	m.ObserveHeader(put.Header, 0)
	require.Eventually(t, func() bool { return w.opened.Load() == 2 }, 5*time.Second, time.Millisecond)
	_, err = client.Put(ctx, keys.Candidate(1), "a:1")
	require.NoError(t, err)
	s, err := m.Wait(ctx, queueLength(1))
	require.NoError(t, err)
	require.False(t, s.Stale)
	require.Zero(t, m.RebuildCount())
}

// If another etcd answers each watch than the reads, for whatever reason, the cluster is read again a few
// times, and then about as often as a watch may lag.
func TestReadsAgainAreFew(t *testing.T) {
	t.Parallel()
	m, _, _ := behindAProxy(t, &proxyWatcher{id: 7})
	began := time.Now()
	<-time.After(20 * proxyLag)
	require.Eventually(t, func() bool { return m.RebuildCount() > 2 }, 20*time.Second, proxyLag)
	again, lags := m.RebuildCount(), int64(time.Since(began)/proxyLag)
	require.LessOrEqual(t, again, 4+2*lags, "a pause is four fifths of the longest, at the least")
}

// forgetful is a watcher over a direct path to etcd that loses the requests for progress of its first watch.
type forgetful struct {
	clientv3.Watcher
	opened atomic.Int32
}

func (f *forgetful) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	f.opened.Add(1)
	return f.Watcher.Watch(ctx, key, opts...)
}

func (f *forgetful) RequestProgress(ctx context.Context) error {
	if f.opened.Load() == 1 {
		return nil
	}
	return f.Watcher.RequestProgress(ctx)
}

// An etcd that stuttered once is not taken for a proxy: the next watch is opened at a revision of the past, and etcd
// reports no progress of such a watch at first.
func TestAStutterIsNoProxy(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	w := &forgetful{Watcher: client.Watcher}
	derived := clientv3.NewCtxClient(context.Background())
	derived.KV, derived.Watcher = client.KV, w
	m := New(Config{Process: etcd.Process{Client: derived, Keys: testKeys(t)}, LagTimeout: 600 * time.Millisecond})
	run(t, m)
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		put, err := client.Put(ctx, "/elsewhere", "")
		require.NoError(t, err)
		m.ObserveHeader(put.Header, 0)
	}
	require.EqualValues(t, 2, w.opened.Load(), "the first one was mute")
	require.False(t, m.Proxied())
}
