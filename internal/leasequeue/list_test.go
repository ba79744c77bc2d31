package leasequeue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Whatever the pages are, List finds every queue once, with its first entries, and nothing that is not a queue.
func TestList(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	queues := keys.Locks()
	put := func(key, value string) {
		_, err := client.Put(ctx, key, value)
		require.NoError(t, err)
	}
	want := map[string]int{}
	for i := range 120 {
		name := fmt.Sprintf("lock/%d, 100%%", i)
		want[name] = 1 + i%3
		for n := range want[name] {
			// The last one to come has the smallest key.
			put(queues.EntryKey(name, int64(9-n), 1, state.EntryTraits{Shared: n == 1}), fmt.Sprint(n))
		}
	}
	const long = "long"
	want[long] = 1500
	for from := 0; from < want[long]; from += 100 {
		var ops []clientv3.Op
		for n := range 100 {
			ops = append(ops, clientv3.OpPut(queues.EntryKey(long, int64(1+from+n), 1, state.EntryTraits{}), "x"))
		}
		_, err := client.Txn(ctx).Then(ops...).Commit()
		require.NoError(t, err)
	}
	put(queues.BatchCounter(7, 1), "3")
	put(queues.Requests().EntryKey("lock/1, 100%", 7, 1, state.EntryTraits{}), "a request")
	put(keys.Elections().EntryKey("elsewhere", 7, 1, state.EntryTraits{}), "x")

	for _, limit := range []int{1000, 121, 120, 17} {
		got, q, pages := map[string]int{}, leasequeue.Query{Limit: limit, Entries: 2}, 0
		for more := true; more; pages++ {
			var found []leasequeue.QueueState
			found, more, err = leasequeue.List(ctx, client, queues, q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(found), limit)
			for _, f := range found {
				require.NotContains(t, got, f.Name)
				got[f.Name] = f.Length
				require.Len(t, f.Entries, min(2, f.Length))
				require.True(t,
					slices.IsSortedFunc(f.Entries, func(a, b order.Entry) int { return int(a.CreateRevision - b.CreateRevision) }))
				q.After = f.Name
			}
		}
		require.Equal(t, want, got, limit)
		require.Equal(t, (len(want)+limit-1)/limit, pages)
	}
	one, err := leasequeue.ReadQueue(ctx, client, queues, "lock/2, 100%", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, []string{one.Entries[0].Value, one.Entries[1].Value, one.Entries[2].Value})
	require.True(t, one.Entries[1].Shared)
	none, err := leasequeue.ReadQueue(ctx, client, queues, "nothing", 0)
	require.NoError(t, err)
	require.Empty(t, none.Entries)
}

// hurried is a context with a deadline that passes with the last of a number of requests.
type hurried struct {
	context.Context
	clientv3.KV
	left int
}

func (h *hurried) Err() error {
	if h.left < 0 {
		return context.DeadlineExceeded
	}
	return h.Context.Err()
}

func (h *hurried) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if h.left--; h.left < 0 {
		return nil, h.Err()
	}
	return h.KV.Get(ctx, key, opts...)
}

func (h *hurried) Txn(ctx context.Context) clientv3.Txn {
	if h.left--; h.left < 0 {
		return failed{err: h.Err()}
	}
	return h.KV.Txn(ctx)
}

// failed is a transaction that fails.
type failed struct {
	clientv3.Txn
	err error
}

func (f failed) Then(...clientv3.Op) clientv3.Txn { return f }

func (f failed) Commit() (*clientv3.TxnResponse, error) { return nil, f.err }

// A list that runs out of time comes in parts. Each part continues after the one before.
func TestListGoesOnWhereItWasCutShort(t *testing.T) {
	t.Parallel()
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	var want []string
	for i := range 130 {
		want = append(want, fmt.Sprintf("%03d", i))
		_, err := client.Put(ctx, keys.Locks().EntryKey(want[i], 1, 1, state.EntryTraits{}), "x")
		require.NoError(t, err)
	}
	list := func(requests int, q leasequeue.Query) (found []string, more bool, err error) {
		h := &hurried{Context: ctx, KV: client.KV, left: requests}
		read, more, err := leasequeue.List(h, &clientv3.Client{KV: h}, keys.Locks(), q)
		for _, f := range read {
			found = append(found, f.Name)
		}
		return found, more, err
	}
	for requests := 2; requests < 4; requests++ {
		var all []string
		q, cut := leasequeue.Query{Limit: 1000}, 0
		for more := true; more; {
			var found []string
			if found, more, err = list(requests, q); err != nil {
				unfinished, ok := errors.AsType[*lifecycle.UnfinishedError](err)
				require.True(t, ok, "%v", err)
				require.True(t, more)
				q.After = unfinished.After
				cut++
			}
			all = append(all, found...)
		}
		require.ElementsMatch(t, want, all)
		require.Equal(t, 4-requests, cut, "names and fifty queues at a time")
	}
	found, more, err := list(1, leasequeue.Query{Limit: 1000})
	require.Equal(t, context.DeadlineExceeded, errors.Unwrap(err), "no queue was read")
	require.Empty(t, found)
	require.False(t, more)
}
