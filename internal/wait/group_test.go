package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, over := NewGroup(), errors.New("over")
		causes, closed := make(chan error, 1), make(chan struct{})
		untilEnd := func(ctx context.Context) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		require.True(t, g.Go(untilEnd))
		left, ok := g.Join()
		require.True(t, ok)
		require.NoError(t, g.Context().Err())
		go func() {
			defer close(closed)
			g.Close(over)
		}()
		require.ErrorIs(t, <-causes, over)
		synctest.Wait()
		select {
		case <-closed:
			require.Fail(t, "Close did not wait for the one that joined")
		default:
		}
		require.False(t, g.Go(untilEnd), "nothing joins a closed group")
		_, ok = g.Join()
		require.False(t, ok)
		left()
		<-closed
		g.Close(errors.New("again"))
		require.ErrorIs(t, context.Cause(g.Context()), over)
	})
}
