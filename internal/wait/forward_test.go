package wait

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var value atomic.Int64
		changed, out, ended := make(chan struct{}, 1), make(chan int64), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			Forward(ctx, out, changed, value.Load)
		}()
		require.Zero(t, <-out, "what it is at first, be it zero")
		for i := int64(1); i < 5; i++ {
			value.Store(i)
			changed <- struct{}{}
			synctest.Wait()
		}
		require.EqualValues(t, 4, <-out, "the newest")
		changed <- struct{}{}
		synctest.Wait()
		select {
		case <-out:
			t.Error("it is no other")
		default:
		}
		cancel()
		<-ended
	})
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, asked := make(chan struct{}), 0
		ctx, cancel := context.WithCancelCause(t.Context())
		own := errors.New("its own")
		result := make(chan error)
		go func() { result <- Until(ctx, changed, func() bool { asked++; return asked == 3 }) }()
		changed <- struct{}{}
		changed <- struct{}{}
		require.NoError(t, <-result)
		require.NoError(t, Until(ctx, nil, func() bool { return true }))
		go func() { result <- Until(ctx, changed, func() bool { return false }) }()
		cancel(own)
		require.Equal(t, own, <-result)
	})
}
