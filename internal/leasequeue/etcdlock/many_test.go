package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/test/testbed"
)

// Many callers of one process want the same lock. Each gets it once, one at a time, in the order of the tokens.
func TestManyWaitHere(t *testing.T) {
	const many = 200
	s := testbed.New(t, testbed.LongTTL)
	p := start(s)
	held, err := p.Acquire(s.Ctx, "it")
	require.NoError(t, err)
	var wg sync.WaitGroup
	tokens := make(chan int64, many)
	for range many {
		wg.Go(func() {
			h, err := p.Acquire(s.Ctx, "it")
			if err != nil {
				return
			}
			tokens <- h.Token()
			_ = h.Release(s.Ctx)
		})
	}
	require.Eventually(t, func() bool {
		resp, err := s.Client.Get(s.Ctx, s.Keys.Locks().QueuePrefix("it"), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == many+1
	}, time.Minute, 20*time.Millisecond, "all wait")
	require.NoError(t, held.Release(s.Ctx))
	wg.Wait()
	close(tokens)
	require.Len(t, tokens, many)
	last := int64(0)
	for token := range tokens {
		require.Greater(t, token, last)
		last = token
	}
	readers := make(chan struct{}, many)
	for range many {
		wg.Go(func() {
			if h, err := p.Acquire(s.Ctx, "it", lock.Shared()); err == nil {
				readers <- struct{}{}
				_ = h.Release(s.Ctx)
			}
		})
	}
	wg.Wait()
	require.Len(t, readers, many)
}

// Hundreds of callers want and release locks of their own at once. They share large transactions, and smaller
// ones if etcd takes fewer or shorter operations in one.
func TestManyNamesAtOnce(t *testing.T) {
	const many = 600
	s := testbed.New(t, testbed.LongTTL)
	for _, tooMuch := range []error{nil, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge} {
		t.Run(fmt.Sprint(tooMuch), func(t *testing.T) {
			p := start(s.ForSubtest(t))
			if tooMuch != nil {
				large := func(r etcdfault.Request) bool { return len(r.Puts)+len(r.Deletes) > 10 }
				for range 50 {
					p.Faults.FailNext(etcdfault.OpTxn, tooMuch, large)
				}
			}
			held := make([]lock.Held, many)
			each := func(do func(i int) error) {
				var wg sync.WaitGroup
				errs := make([]error, many)
				for i := range many {
					wg.Go(func() { errs[i] = do(i) })
				}
				wg.Wait()
				require.NoError(t, errors.Join(errs...))
			}
			acquire := func(i int) (err error) {
				held[i], err = p.Acquire(s.Ctx, fmt.Sprint("it ", i))
				return err
			}
			before := map[string]int64{}
			for range 2 {
				each(acquire)
				for _, h := range held {
					require.True(t, h.Valid())
					require.Greater(t, h.Token(), before[h.Name()])
					before[h.Name()] = h.Token()
				}
				require.Len(t, before, many)
				each(func(i int) error {
					if held[i].Name() != fmt.Sprint("it ", i) {
						return errors.New("another one's lock")
					}
					return held[i].Release(s.Ctx)
				})
				require.Empty(t, slices.DeleteFunc(s.KeysWithPrefix(s.Keys.Locks().Root()), func(key string) bool {
					_, queued := s.Keys.Locks().QueueOf(key)
					return !queued
				}))
			}
		})
	}
}

// The owner stored with each lock can be long. Then fewer of them share a transaction than etcd, or its client,
// would send.
func TestManyLongOwnersAtOnce(t *testing.T) {
	const many = 600
	s := testbed.New(t, testbed.LongTTL)
	var p *etcdlock.Registry
	s.Start(func(q *testbed.Process) (func(context.Context), error) {
		queues, err := testbed.NewEngine(q, s.Keys.Locks())
		if err != nil {
			return nil, err
		}
		p = etcdlock.NewRegistry(queues.Queues(s.Keys.Locks()), strings.Repeat("x", 12<<10))
		return queues.Run, nil
	})
	var wg sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		wg.Go(func() { _, errs[i] = p.Acquire(s.Ctx, fmt.Sprint("it ", i)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}
