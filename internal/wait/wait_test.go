package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.True(t, For(t.Context(), time.Second))
		require.Equal(t, time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.False(t, For(ctx, time.Hour))
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

func TestUntilClosed(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	done, why := make(chan struct{}), errors.New("enough")
	cancel(why)
	require.Equal(t, why, UntilClosed(ctx, done))
	close(done)
	for range 100 {
		require.NoError(t, UntilClosed(ctx, done), "what is done counts")
	}
}
