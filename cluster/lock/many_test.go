package lock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/internal/queuestest"
	"github.com/goverse/goverse/cluster/lock"
)

// Many in one process want the same lock: each gets it once, one at a time, in the order of
// the tokens.
func TestManyWaitHere(t *testing.T) {
	const many = 200
	s := queuestest.New(t, queuestest.Long)
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
		resp, err := s.Client.Get(s.Ctx, s.Keys.Locks().Queue("it"), clientv3.WithPrefix(), clientv3.WithCountOnly())
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
