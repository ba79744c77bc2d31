package wait

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ones, others := errors.New("the one's"), errors.New("the other's")
		var ctx context.Context
		var end, endOther context.CancelCauseFunc
		begin := func() (context.Context, context.CancelFunc) {
			one, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "one"))
			other, cancelOther := context.WithCancelCause(context.WithValue(t.Context(), key{}, "other"))
			end, endOther = cancel, cancelOther
			return MergeContexts(one, other)
		}

		ctx, stop := begin()
		require.Equal(t, "one", ctx.Value(key{}))
		end(ones)
		require.Equal(t, ones, context.Cause(ctx), "at once")
		endOther(others)
		synctest.Wait()
		require.Equal(t, ones, context.Cause(ctx), "the first cause stays")
		stop()

		ctx, stop = begin()
		endOther(others)
		<-ctx.Done()
		end(ones)
		require.Equal(t, others, context.Cause(ctx))
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		stop()

		ctx, stop = begin()
		synctest.Wait()
		before := runtime.NumGoroutine()
		_, again := MergeContexts(ctx, t.Context())
		require.LessOrEqual(t, runtime.NumGoroutine(), before, "nobody waits")
		again()
		stop()
		stop()
		require.Equal(t, context.Canceled, context.Cause(ctx))
		endOther(others)
		synctest.Wait()
		require.Equal(t, context.Canceled, context.Cause(ctx), "released")
		end(nil)

		one, other := t.Context(), t.Context()
		ctx, endIt := MergeContextsCause(one, other)
		endIt(ones)
		endIt(others)
		require.Equal(t, ones, context.Cause(ctx), "the cause that it was ended with first")

		over, cancel := context.WithCancelCause(t.Context())
		cancel(others)
		ctx, stop = MergeContexts(t.Context(), over)
		require.Equal(t, others, context.Cause(ctx), "it was over before")
		stop()
	})
}
