package termscope

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/lifecycle"
)

// terms leads terms of a second each, as an election does.
func terms(ctx context.Context, fn func(context.Context, int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	const lasts = time.Second
	began := time.Now().Truncate(lasts)
	term, end := context.WithDeadline(ctx, began.Add(lasts))
	defer end()
	err := fn(term, int(began.Unix()))
	if term.Err() != nil && ctx.Err() == nil {
		return lifecycle.ErrTermOver
	}
	return err
}

func TestLeadEachCallsOnceATerm(t *testing.T) {
	for name, returned := range map[string]error{"nil": nil, "the end of the term": lifecycle.ErrTermOver} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped")
			var calls []int
			err := LeadEach(ctx, terms, func(_ context.Context, term int) error {
				if calls = append(calls, term); len(calls) == 5 {
					cancel(stopped)
				}
				return returned
			})
			require.Equal(t, stopped, err, name)
			require.Len(t, calls, 5)
			for i, term := range calls[1:] {
				require.Equal(t, calls[i]+1, term, "each term once")
			}
		})
	}
}

func TestLeadEachReturnsOtherErrors(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	err := LeadEach(t.Context(), terms, func(context.Context, int) error { calls++; return broken })
	require.Equal(t, broken, err)
	require.Equal(t, 1, calls)
	fails := func(context.Context, func(context.Context, int) error) error { return broken }
	err = LeadEach(t.Context(), fails, func(context.Context, int) error { panic("it is not led") })
	require.Equal(t, broken, err)
}
