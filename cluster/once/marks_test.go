package once

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/clock"
	"github.com/goverse/goverse/cluster/internal/deadline"
	"github.com/goverse/goverse/internal/etcdtest"
)

// A lease that is shared has the retention left for whoever comes last, by either clock: one
// that was set back, or stood still, does not make it last.
func TestEitherClockEndsTheUseOfALease(t *testing.T) {
	t.Parallel()
	ctx, client := etcdtest.Context(t), etcdtest.Client(t)
	for what, later := range map[string]deadline.Instant{
		"the wall clock was set back": {Mono: int64(4 * time.Hour), Wall: int64(-time.Hour)},
		"the machine was suspended":   {Mono: 0, Wall: int64(4 * time.Hour)},
	} {
		began := clock.Now()
		k := newMarks(Config{Client: client}.withDefaults())
		k.now = func() deadline.Instant { return began }
		first, err := k.expiring(ctx)
		require.NoError(t, err)
		same, err := k.expiring(ctx)
		require.NoError(t, err)
		require.Equal(t, first, same, what)
		k.now = func() deadline.Instant {
			return deadline.Instant{Mono: began.Mono + later.Mono, Wall: began.Wall + later.Wall}
		}
		next, err := k.expiring(ctx)
		require.NoError(t, err)
		require.NotEqual(t, first, next, what)
	}
}
