package termscope

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var errFirst, errSecond = errors.New("first"), errors.New("second")

// All contexts end with the first cause, also one that is made after the end.
func TestFirstCauseCounts(t *testing.T) {
	for name, limitFirst := range map[string]bool{"the limit first": true, "the term first": false} {
		for made, before := range map[string]bool{"made before": true, "made after": false} {
			t.Run(name+", "+made, func(t *testing.T) {
				limit, endLimit := context.WithCancelCause(t.Context())
				e := ending{limit: EndOf(limit)}
				var bound context.Context
				stop := func() {}
				if before {
					bound, stop = e.bind(t.Context())
					require.NoError(t, bound.Err())
					require.NoError(t, e.context().Err())
				}
				require.NoError(t, e.endCause())
				if limitFirst {
					endLimit(errFirst)
					require.Equal(t, errFirst, e.endCause())
					e.come(errSecond)
				} else {
					e.come(errFirst)
					endLimit(errSecond)
				}
				e.come(errSecond)
				require.Equal(t, errFirst, e.endCause())
				if !before {
					bound, stop = e.bind(t.Context())
				}
				defer stop()
				for _, ctx := range []context.Context{bound, e.context()} {
					<-ctx.Done()
					require.Equal(t, errFirst, context.Cause(ctx))
				}
			})
		}
	}
}

// A bound context ends with its own parent too, and nothing of it remains once it is stopped.
func TestStoppedContextsAreForgotten(t *testing.T) {
	e := ending{limit: EndOf(t.Context())}
	var stops []func()
	var all []context.Context
	for range 5 {
		ctx, stop := e.bind(t.Context())
		all, stops = append(all, ctx), append(stops, stop)
	}
	for _, i := range []int{0, 4, 2, 2, 1} { // the first, the last, one of the middle, twice
		stops[i]()
		require.Error(t, all[i].Err())
	}
	require.Len(t, e.bound, 1)
	require.NoError(t, all[3].Err())
	parent, cancel := context.WithCancelCause(t.Context())
	own, stop := e.bind(parent)
	cancel(errFirst)
	require.Equal(t, errFirst, context.Cause(own))
	stop()
	stops[3]()
	require.Nil(t, e.bound)
	require.Nil(t, e.made, "none was asked for")
	e.come(errSecond)
	stop()
}

// Contexts that are made, stopped and ended at the same time all end, and Context is one.
func TestContextsAtTheSameTime(t *testing.T) {
	for range 100 {
		e := ending{limit: EndOf(t.Context())}
		var wg sync.WaitGroup
		same := make([]context.Context, 4)
		for i := range same {
			wg.Go(func() {
				ctx, stop := e.bind(t.Context())
				same[i] = e.context()
				if i%2 == 0 {
					stop()
				}
				<-ctx.Done()
				stop()
			})
		}
		wg.Go(func() { e.come(errFirst) })
		wg.Wait()
		require.Nil(t, e.bound)
		for _, ctx := range same {
			require.Equal(t, same[0], ctx)
			require.Equal(t, errFirst, context.Cause(ctx))
		}
	}
}
