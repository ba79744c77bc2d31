package processor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// The handler and OnPark get the token of the term, also one that the checkpoint has chosen.
func TestTokenFrom(t *testing.T) {
	t.Parallel()
	require.Zero(t, processor.TokenFrom(t.Context()))
	for want, lead := range map[int64]processor.LeaderLock{
		1: nil,
		7: processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error { return fn(ctx, 7) }),
	} {
		tokens := make(chan int64, 2)
		p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 1}, Checkpoint: &processor.Memory{},
			LeaderLock: lead, MaxAttempts: 1,
			Handler: func(ctx context.Context, _ processor.Event[int]) error {
				tokens <- processor.TokenFrom(ctx)
				return errOops
			},
			OnPark: func(ctx context.Context, _ processor.Event[int], _ error) error {
				tokens <- processor.TokenFrom(ctx)
				return nil
			}})
		require.Equal(t, want, <-tokens)
		require.Equal(t, want, <-tokens)
		eventually(t, func() bool { return p.Status().Parked == 1 }, "it is parked")
		end()
	}
}
