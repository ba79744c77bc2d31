package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A hundred clients with the same question cost one read a second, also if it fails, and if the first of them has
// left.
func TestCache(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{nil, errors.New("etcd is away")} {
		synctest.Test(t, func(t *testing.T) {
			c, reads := newCache(time.Second, maxReads), atomic.Int64{}
			ask := func(ctx context.Context, question string) (any, error) {
				return c.get(ctx, question, 2*time.Second, func(ctx context.Context) (any, error) {
					n := reads.Add(1)
					<-time.After(100 * time.Millisecond) // in virtual time
					return n, errors.Join(ctx.Err(), failed)
				})
			}
			gone, leave := context.WithCancel(t.Context())
			defer leave()
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					ctx := t.Context()
					if i == 0 {
						ctx = gone
					}
					for range 50 { // each dashboard every 200 ms, for ten seconds
						_, err := ask(ctx, "it")
						require.ErrorIs(t, err, failed)
						leave()
						<-time.After(200 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			require.LessOrEqual(t, reads.Load(), int64(11))
			require.GreaterOrEqual(t, reads.Load(), int64(8))
		})
	}
}

// Questions have separate answers, a hanging read ends, and the memory is bounded.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Second, maxReads)
		c.readRate = nil // covered by another test
		read := func(body any) func(context.Context) (any, error) {
			return func(context.Context) (any, error) { return body, nil }
		}
		for i := range 3 * maxCached {
			body, err := c.get(t.Context(), fmt.Sprint(i), time.Second, read(i))
			require.NoError(t, err)
			require.Equal(t, i, body)
		}
		require.Len(t, c.answers, maxCached)
		<-time.After(time.Second)
		body, err := c.get(t.Context(), "0", time.Second, read("new"))
		require.NoError(t, err)
		require.Equal(t, "new", body)
		require.Len(t, c.answers, 1, "the others are forgotten")
		_, err = c.get(t.Context(), "hangs", time.Second, func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A read that is in progress when its answer is forgotten serves no later caller.
func TestForgottenWhileRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, began, changed := newCache(time.Second, maxReads), make(chan struct{}), make(chan struct{})
		var former sync.WaitGroup
		former.Go(func() {
			body, err := c.get(t.Context(), "it", time.Minute, func(context.Context) (any, error) {
				close(began)
				<-changed
				return "old", nil
			})
			require.NoError(t, err)
			require.Equal(t, "old", body)
		})
		<-began
		c.forget("it")
		read := func(context.Context) (any, error) { return "new", nil }
		body, err := c.get(t.Context(), "it", time.Minute, read)
		require.NoError(t, err)
		require.Equal(t, "new", body)
		close(changed)
		former.Wait()
		body, err = c.get(t.Context(), "it", time.Minute, read)
		require.NoError(t, err)
		require.Equal(t, "new", body)
	})
}

// However many questions there are, only a few reads run at a time.
func TestCacheReadsFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Second, 3)
		var now, most atomic.Int64
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				_, err := c.get(t.Context(), fmt.Sprint(i), time.Minute, func(context.Context) (any, error) {
					most.Store(max(most.Load(), now.Add(1)))
					<-time.After(time.Second)
					now.Add(-1)
					return nil, nil
				})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.EqualValues(t, 3, most.Load())
	})
}

// The rate of reads is limited for a client that asks another question each time.
func TestDifferentQuestionsAreFewASecond(t *testing.T) {
	t.Parallel()
	c := newCache(time.Second, maxReads)
	began, reads, refused := time.Now(), 0, 0
	for i := range 2000 {
		_, err := c.get(t.Context(), fmt.Sprint(i), time.Minute, func(context.Context) (any, error) {
			reads++
			return nil, nil
		})
		if err != nil {
			require.Equal(t, busyKind, problemKindOf(err))
			refused++
		}
	}
	require.LessOrEqual(t, float64(reads), readBurst+readsPerSecond*time.Since(began).Seconds()+1)
	require.Equal(t, 2000, reads+refused)
}
