package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutOfDate(t *testing.T) {
	const ttl = 10 * time.Second
	now := time.Unix(1000, 0)
	require.NoError(t, outOfDateReason(true, now.Add(-time.Minute), now, ttl), "the session is valid")
	require.NoError(t, outOfDateReason(false, now.Add(-ttl), now, ttl), "it is suspended, or opened anew")
	require.ErrorContains(t, outOfDateReason(false, now.Add(-ttl-time.Second), now, ttl), "no answer from etcd for 11s")
}

func TestCurrencyEndsAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var valid atomic.Bool
		valid.Store(true)
		began := time.Now()
		c := newViewMonitor(10*time.Second, valid.Load, func() time.Time { return began })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { c.run(ctx) })
		<-time.After(time.Minute)
		first := c.currentContext()
		require.NoError(t, first.Err())
		valid.Store(false)
		<-time.After(time.Second)
		require.ErrorContains(t, context.Cause(first), "no answer from etcd for 1m0")
		require.Equal(t, first, c.currentContext(), "as long as it may be out of date")
		valid.Store(true)
		<-time.After(time.Second)
		require.NoError(t, c.currentContext().Err())
		require.Error(t, first.Err())
		cancel()
		wg.Wait()
	})
}
