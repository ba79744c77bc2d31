package lock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/queuestest"
	"github.com/goverse/goverse/cluster/lock"
)

// Many in one process want the same lock: each gets it once, one at a time, in the order of
// the tokens.
func TestManyWaitHere(t *testing.T) {
	const many = 1000
	s := queuestest.New(t)
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
	s.Eventually(func() bool { return len(s.Under(s.Keys.Locks().Queue("it"))) == many+1 }, "all wait")
	began := time.Now()
	require.NoError(t, held.Release(s.Ctx))
	wg.Wait()
	t.Logf("%d grants in %v", many, time.Since(began))
	close(tokens)
	require.Len(t, tokens, many)
	last := int64(0)
	for token := range tokens {
		require.Greater(t, token, last)
		last = token
	}
	readers := 0
	for range many {
		wg.Go(func() {
			if h, err := p.Acquire(s.Ctx, "it", lock.Shared()); err == nil {
				_ = h.Release(s.Ctx)
			}
		})
		readers++
	}
	wg.Wait()
	require.Equal(t, many, readers)
}
