package leasequeue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// Whatever the pages are: every queue is found once, with its first entries, and nothing that is none.
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
			// The last to come has the smallest key.
			put(queues.Entry(name, int64(9-n), 1, state.Traits{Shared: n == 1}), fmt.Sprint(n))
		}
	}
	const long = "long"
	want[long] = 1500
	for from := 0; from < want[long]; from += 100 {
		var ops []clientv3.Op
		for n := range 100 {
			ops = append(ops, clientv3.OpPut(queues.Entry(long, int64(1+from+n), 1, state.Traits{}), "x"))
		}
		_, err := client.Txn(ctx).Then(ops...).Commit()
		require.NoError(t, err)
	}
	put(queues.Batches(7, 1), "3")
	put(queues.Requests().Entry("lock/1, 100%", 7, 1, state.Traits{}), "a request")
	put(keys.Elections().Entry("elsewhere", 7, 1, state.Traits{}), "x")

	for _, limit := range []int{1000, 121, 120, 17} {
		got, q, pages := map[string]int{}, leasequeue.Query{Limit: limit, Entries: 2}, 0
		for more := true; more; pages++ {
			var found []leasequeue.Found
			found, more, err = leasequeue.List(ctx, client, queues, q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(found), limit)
			for _, f := range found {
				require.NotContains(t, got, f.Name)
				got[f.Name] = f.Length
				require.Len(t, f.Entries, min(2, f.Length))
				require.True(t, slices.IsSortedFunc(f.Entries, func(a, b order.Entry) int { return int(a.Create - b.Create) }))
				q.After = f.Name
			}
		}
		require.Equal(t, want, got, limit)
		require.Equal(t, (len(want)+limit-1)/limit, pages)
	}
	one, err := leasequeue.Read(ctx, client, queues, "lock/2, 100%", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, []string{one.Entries[0].Value, one.Entries[1].Value, one.Entries[2].Value})
	require.True(t, one.Entries[1].Shared)
	none, err := leasequeue.Read(ctx, client, queues, "nothing", 0)
	require.NoError(t, err)
	require.Empty(t, none.Entries)
}
