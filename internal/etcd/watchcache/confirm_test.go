package watchcache

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A view is fresh while no lease in it is older than etcd's raft term. If it is not, Confirm finds changes that
// the watch has not delivered, and waits for lingering members if requested.
func TestFreshAndConfirm(t *testing.T) {
	t.Parallel()
	plain, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	register := func(term uint64) {
		t.Helper()
		_, err := plain.Put(ctx, keys.Node("a:1"), state.Record{Term: term, TTL: 3600}.Encode())
		require.NoError(t, err)
	}
	now, err := plain.Get(ctx, "nothing")
	require.NoError(t, err)
	term := now.Header.RaftTerm
	register(term)
	client, watch := gateWatches(plain)
	m := New(Config{
		Process: etcd.Process{Client: client, Keys: keys, Address: "me:1"}, LagTimeout: 300 * time.Millisecond})
	run(t, m)
	require.True(t, m.Fresh(term))
	require.True(t, m.Fresh(0), "the mirror knows the term itself")
	clear, err := m.Confirm(ctx, false)
	require.NoError(t, err)
	require.True(t, clear)
	require.False(t, m.Fresh(term+1), "a's lease is older")
	require.False(t, m.Fresh(0), "and terms only grow")

	watch.freeze(true)
	_, err = plain.Delete(ctx, keys.Node("a:1"))
	require.NoError(t, err)
	require.NotNil(t, m.Snapshot().Member("a:1"), "the watch reports nothing")
	clear, err = m.Confirm(ctx, false)
	require.NoError(t, err)
	require.False(t, clear, "it is gone, and may not know it")
	require.Len(t, m.Snapshot().Lingering, 1)
	watch.freeze(false)

	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = m.Confirm(brief, true)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	register(term + 1)
	clear, err = m.Confirm(ctx, true)
	require.NoError(t, err)
	require.True(t, clear, "it has heard of it")
	require.True(t, m.Fresh(0))
}

// The snapshot contains all writes before the call. Writes of others outside the range are no reason to wait.
func TestConfirmIsCurrent(t *testing.T) {
	client, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys, Address: "me:1"}, LagTimeout: time.Hour})
	run(t, m)
	for i := range 20 {
		_, err := client.Put(ctx, keys.Candidate(int64(i+1)), "")
		require.NoError(t, err)
		_, err = client.Put(ctx, keys.Locks().Root()+"x", "")
		require.NoError(t, err)
		clear, err := m.Confirm(ctx, true)
		require.NoError(t, err)
		require.True(t, clear)
		require.Len(t, m.Snapshot().Queue, i+1)
	}
}

// cutOff is a member of etcd that has no leader: it refuses requests that require one, and leaves others
// unanswered.
type cutOff struct{ clientv3.KV }

func (cutOff) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md[rpctypes.MetadataRequireLeaderKey]) == 1 {
		return nil, rpctypes.ErrNoLeader
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A member of etcd that is cut off refuses to confirm, rather than using up the time-out.
func TestConfirmIsRefusedWithoutALeader(t *testing.T) {
	client := clientv3.NewCtxClient(t.Context())
	client.KV = cutOff{}
	m := New(Config{Process: etcd.Process{Client: client, Keys: testKeys(t), RequestTimeout: 5 * time.Second}})
	_, err := m.Confirm(t.Context(), false)
	require.ErrorIs(t, err, rpctypes.ErrNoLeader)
}

// held is a watcher that delivers nothing while it is held, and then all of it in order, as to a process that stood
// still.
type held struct {
	clientv3.Watcher
	gate chan struct{} // closed when delivery goes on
	hold chan struct{} // closed when delivery stops
}

func (h *held) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in, out := h.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for resp := range in {
			select {
			case <-h.hold:
				select {
				case <-h.gate:
				case <-ctx.Done():
				}
			default:
			}
			select {
			case out <- resp:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// A member's grace period does not end before what others reported within it was seen, however late that arrives.
func TestLingersUntilReportsAreSeen(t *testing.T) {
	t.Parallel()
	late := true
	for n := 0; late && n < 20; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) { late = lingersUntilReportsAreSeen(t) })
	}
	require.False(t, late, "no report was made within the grace period")
}

// lingersUntilReportsAreSeen returns whether the report was made too late, because the machine was busy.
func lingersUntilReportsAreSeen(t *testing.T) (late bool) {
	plain, keys := etcdtest.Client(t), testKeys(t)
	ctx := etcdtest.Context(t)
	put := func(address string, r state.Record) {
		t.Helper()
		_, err := plain.Put(ctx, keys.Node(address), r.Encode())
		require.NoError(t, err)
	}
	first, err := plain.Get(ctx, "nothing")
	require.NoError(t, err)
	term := first.Header.RaftTerm
	for _, address := range []string{"a:1", "b:1", "c:1"} {
		put(address, state.Record{Term: term, TTL: 3600})
	}
	h := &held{Watcher: plain.Watcher, gate: make(chan struct{}), hold: make(chan struct{})}
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Watcher = plain.KV, h
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys, Address: "me:1"}, LagTimeout: time.Minute})
	run(t, m)
	m.Fresh(term + 1) // their leases are older
	began := time.Now()
	_, err = plain.Delete(ctx, keys.Node("a:1"))
	require.NoError(t, err)
	_, err = m.Wait(ctx, func(s *state.Snapshot) bool { return len(s.Lingering) == 1 })
	require.NoError(t, err)

	close(h.hold)
	_, err = plain.Delete(ctx, keys.Node("b:1"))
	require.NoError(t, err)
	put("b:1", state.Record{Term: term + 1, TTL: 3600, RevokedEarly: true})
	if time.Since(began) > 150*time.Millisecond { // the grace period is 200 ms
		return true
	}
	brief, cancel := context.WithTimeout(ctx, time.Second) // five grace periods
	defer cancel()
	over := func(s *state.Snapshot) bool { return s.Member("a:1") == nil }
	_, err = m.Wait(brief, over)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(h.gate)
	again, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = m.Wait(again, over)
	require.ErrorIs(t, err, context.DeadlineExceeded, "etcd had revoked b's lease early")
	return false
}
