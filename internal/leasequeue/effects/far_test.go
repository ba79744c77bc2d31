package effects_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// far is an etcd 80 ms away that holds marks. It answers only the requests of List.
type far struct {
	clientv3.KV
	marks []*mvccpb.KeyValue // by key
	page  int                // marks per read
}

const away = 80 * time.Millisecond

func (f *far) travel(ctx context.Context) error {
	select {
	case <-time.After(away):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *far) from(key string) []*mvccpb.KeyValue {
	i, _ := slices.BinarySearchFunc(f.marks, key, func(kv *mvccpb.KeyValue, key string) int {
		return slices.Compare(kv.Key, []byte(key))
	})
	return f.marks[i:]
}

func (f *far) Get(ctx context.Context, key string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := f.travel(ctx); err != nil {
		return nil, err
	}
	rest := f.from(key)
	some := rest[:min(len(rest), f.page)]
	return &clientv3.GetResponse{Kvs: some, More: len(some) < len(rest)}, nil
}

func (f *far) Txn(ctx context.Context) clientv3.Txn { return &farTxn{far: f, ctx: ctx} }

type farTxn struct {
	clientv3.Txn
	far *far
	ctx context.Context
	ops []clientv3.Op
}

func (x *farTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	x.ops = ops
	return x
}

// Commit answers with the marks. All queues are empty.
func (x *farTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := x.far.travel(x.ctx); err != nil {
		return nil, err
	}
	resp := &clientv3.TxnResponse{Succeeded: true}
	for _, op := range x.ops {
		r := &etcdserverpb.RangeResponse{}
		if len(op.RangeBytes()) == 0 {
			r.Kvs = x.far.from(string(op.KeyBytes()))[:1]
		}
		resp.Responses = append(resp.Responses, &etcdserverpb.ResponseOp{
			Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: r}})
	}
	return resp, nil
}

// A list that takes longer than its caller has time comes in parts. Each part continues after the one before,
// whatever was found until then.
func TestListGoesOnWhereItWasCutShort(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	etcd := func(page, n int, unknown func(i int) bool) (f *far, all, open []string) {
		f = &far{page: page}
		for i := range n {
			name := fmt.Sprintf("%06d", i)
			kv := &mvccpb.KeyValue{Key: []byte(keys.EffectMark(name)), Value: []byte(`{"state":"done","attempt":1}`), Lease: 7}
			if all = append(all, name); unknown(i) {
				kv.Value, kv.Lease = []byte(`{"state":"running","attempt":1}`), 0
				open = append(open, name)
			}
			f.marks = append(f.marks, kv)
		}
		return f, all, open
	}
	// walk lists everything, with two seconds for each part.
	walk := func(t *testing.T, f *far, q once.Query) (names []string, cut int) {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			found, more, err := effects.List(ctx, &clientv3.Client{KV: f}, keys, q)
			cancel()
			for _, s := range found {
				names = append(names, s.Name)
				q.After = s.Name
			}
			require.LessOrEqual(t, len(found), q.Limit)
			if err != nil {
				unfinished, ok := errors.AsType[*lifecycle.UnfinishedError](err)
				require.True(t, ok, "%v", err)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, more)
				require.GreaterOrEqual(t, unfinished.After, q.After)
				q.After = unfinished.After
				cut++
			}
			if !more {
				return names, cut
			}
		}
	}
	for name, c := range map[string]struct {
		n       int
		unknown func(i int) bool
	}{
		"few are unknown":  {100_000, func(i int) bool { return i%30_000 == 20_000 }},
		"none is":          {100_000, func(int) bool { return false }},
		"one, and no more": {60_000, func(i int) bool { return i == 0 }},
		"all are":          {3000, func(int) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _, open := etcd(1000, c.n, c.unknown)
				found, cut := walk(t, f, once.Query{Unknown: true, Limit: 100_000})
				require.Equal(t, open, found)
				require.Greater(t, cut, 1)
				found, _ = walk(t, f, once.Query{Unknown: true, Limit: 7})
				require.Equal(t, open, found)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f, all, _ := etcd(50, 3000, func(i int) bool { return i%3 == 0 })
		found, cut := walk(t, f, once.Query{Limit: 100_000})
		require.Equal(t, all, found)
		require.Greater(t, cut, 1)
	})
}

// If nothing was read, or ctx ends for another reason, there is no place to continue from.
func TestListThatReadNothingFails(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		f := &far{page: 1}
		for _, name := range []string{"a", "b", "c"} {
			f.marks = append(f.marks, &mvccpb.KeyValue{Key: []byte(keys.EffectMark(name)), Lease: 7})
		}
		list := func(ctx context.Context) {
			t.Helper()
			found, more, err := effects.List(ctx, &clientv3.Client{KV: f}, keys, once.Query{Limit: 5, Unknown: true})
			require.ErrorIs(t, err, ctx.Err())
			_, unfinished := errors.AsType[*lifecycle.UnfinishedError](err)
			require.False(t, unfinished)
			require.Empty(t, found)
			require.False(t, more)
		}
		brief, cancel := context.WithTimeout(t.Context(), away/2)
		defer cancel()
		list(brief)
		canceled, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(3*away/2, cancel).Stop()
		list(canceled)
	})
}
