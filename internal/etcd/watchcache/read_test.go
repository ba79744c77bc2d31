package watchcache

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// deadEndpoint is an etcd of which the first requests go to an endpoint that never answers.
type deadEndpoint struct {
	clientv3.KV
	clientv3.Watcher
	deadReads, deadWatches int

	mu      sync.Mutex
	began   time.Time
	reads   []time.Duration // when they were sent
	watches []time.Duration
}

// isDead records a request, and reports whether it goes to the dead endpoint.
func (d *deadEndpoint) isDead(sent *[]time.Duration, dead int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	*sent = append(*sent, time.Since(d.began))
	return len(*sent) <= dead
}

func (d *deadEndpoint) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if d.isDead(&d.reads, d.deadReads) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &clientv3.GetResponse{Header: &pb.ResponseHeader{ClusterId: 1, Revision: 1, RaftTerm: 1}}, nil
}

func (d *deadEndpoint) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse, 1)
	if d.isDead(&d.watches, d.deadWatches) {
		<-ctx.Done()
	} else {
		out <- clientv3.WatchResponse{Created: true, Header: &pb.ResponseHeader{ClusterId: 1, Revision: 1, RaftTerm: 1}}
		context.AfterFunc(ctx, func() { close(out) })
	}
	return out
}

func (*deadEndpoint) RequestProgress(context.Context) error { return nil }

func (d *deadEndpoint) client(ctx context.Context) *clientv3.Client {
	client := clientv3.NewCtxClient(ctx)
	client.KV, client.Watcher = d, d
	return client
}

// runBriefly runs a mirror on d for so long, in virtual time, and returns the time after which it was ready.
func (d *deadEndpoint) runBriefly(t *testing.T, lasts time.Duration) (ready time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	m := New(Config{Process: etcd.Process{Client: d.client(ctx), Keys: testKeys(t),
		RequestTimeout: 2 * time.Second}, LagTimeout: 3 * time.Second})
	d.began = time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-m.Ready():
			ready = time.Since(d.began)
		case <-ctx.Done():
		}
	})
	require.ErrorIs(t, m.Run(ctx), context.DeadlineExceeded)
	wg.Wait()
	return ready
}

func TestReadAtADeadEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deadEndpoint{deadReads: 1}
		require.Equal(t, 250*time.Millisecond, d.runBriefly(t, 4*time.Second))
		require.Len(t, d.reads, 2)

		d = &deadEndpoint{deadReads: 2, deadWatches: 1}
		require.Equal(t, time.Second, d.runBriefly(t, 4*time.Second))
		require.Len(t, d.watches, 2)

		d = &deadEndpoint{deadReads: 10}
		require.Zero(t, d.runBriefly(t, 4*time.Second))
		require.Equal(t, milliseconds(0, 250, 750), d.reads[:3])
		require.Greater(t, d.reads[3], 2*time.Second, "the next read, after a pause")
	})
}

func milliseconds(all ...time.Duration) (out []time.Duration) {
	for _, d := range all {
		out = append(out, d*time.Millisecond)
	}
	return out
}

// A watch is opened at other endpoints, for longer each time, and then the range is read again.
func TestWatchAtADeadEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deadEndpoint{deadWatches: 10}
		require.Zero(t, d.runBriefly(t, 5*time.Second))
		require.Equal(t, milliseconds(0, 250, 750, 1750), d.watches[:4])
		require.Len(t, d.reads, 2)
		require.InDelta(t, 4750*time.Millisecond, d.reads[1], float64(30*time.Millisecond))
	})
}

// A change that another node has named is read sooner and more often, unless many nodes do so.
func TestUrgentReadAtADeadEndpoint(t *testing.T) {
	for members, want := range map[int][]time.Duration{
		3:   milliseconds(0, 50, 150, 350, 750),
		100: milliseconds(0, 50, 150, 350, 750),
		101: milliseconds(0, 250, 750),
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &deadEndpoint{deadReads: 10}
			m := New(Config{Process: etcd.Process{Client: d.client(t.Context()), Keys: testKeys(t)}})
			m.publishSnapshot(&state.Snapshot{Members: make([]*state.Member, members)})
			d.began = time.Now()
			_, err := m.read(t.Context(), urgent)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, want, d.reads, "%d members", members)
		})
	}
}

// After such a change the next watch is opened elsewhere as soon.
func TestUrgentWatchAtADeadEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d := &deadEndpoint{began: time.Now()}
		m := New(Config{Process: etcd.Process{Client: d.client(ctx), Keys: testKeys(t)}})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { _ = m.Run(ctx) })
		<-m.Ready()
		synctest.Wait()
		d.mu.Lock()
		d.reads, d.watches, d.deadReads, d.deadWatches = nil, nil, 1, 2
		d.mu.Unlock()
		m.requestRebuild(errNamed)
		<-time.After(10 * time.Second)
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Len(t, d.reads, 2)
		require.Equal(t, shortPatience, d.reads[1]-d.reads[0])
		require.Len(t, d.watches, 3)
		require.Equal(t, shortPatience, d.watches[1]-d.watches[0])
		require.Equal(t, 2*shortPatience, d.watches[2]-d.watches[1])
	})
}

// countedKV counts reads.
type countedKV struct {
	clientv3.KV
	mu   sync.Mutex
	gets int
}

func (c *countedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	return c.KV.Get(ctx, key, opts...)
}

func (c *countedKV) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gets
}

// A revision that another process has named is only a reason to compare the snapshot with etcd.
func TestCheckUpTo(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	derived, g := gateWatches(client)
	kv := &countedKV{KV: client.KV}
	derived.KV = kv
	m := New(Config{Process: etcd.Process{Client: derived, Keys: keys}, LagTimeout: time.Hour})
	run(t, m)
	put, err := client.Put(ctx, keys.Candidate(1), "a:1")
	require.NoError(t, err)
	_, err = m.Wait(ctx, queueLength(1))
	require.NoError(t, err)
	reads := kv.count()
	m.CheckUpTo(ctx, put.Header.Revision, time.Hour)
	m.CheckUpTo(ctx, 1, time.Hour)
	require.Equal(t, reads, kv.count(), "the snapshot shows it")

	const briefly = 10 * time.Millisecond
	known := m.KnownRevision()
	m.CheckUpTo(ctx, put.Header.Revision+1000, briefly) // etcd refuses it
	elsewhere, err := client.Put(ctx, "/elsewhere", "")
	require.NoError(t, err)
	m.CheckUpTo(ctx, elsewhere.Header.Revision, briefly)
	require.GreaterOrEqual(t, kv.count(), reads+2) // more on a busy machine
	require.Zero(t, m.RebuildCount(), "nothing is missing")
	require.Equal(t, known, m.KnownRevision(), "it is not believed")

	g.freeze(true)
	del, err := client.Delete(ctx, keys.Candidate(1))
	require.NoError(t, err)
	m.CheckUpTo(ctx, del.Header.Revision, briefly)
	_, err = m.Wait(ctx, queueLength(0))
	require.NoError(t, err)
	require.EqualValues(t, 1, m.RebuildCount())
}
