package watchprogress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/backoff"
)

func TestPausesGrowAndAreForgotten(t *testing.T) {
	const longest = 200 * time.Millisecond
	var p ReadPauses
	next := func(stood time.Duration) (pause time.Duration) {
		p, pause = p.Next(stood, longest, backoff.NoJitter)
		return pause
	}
	for _, want := range []time.Duration{20, 40, 80, 160, 200, 200, 200} {
		require.Equal(t, want*time.Millisecond, next(0))
	}
	require.Equal(t, 80*time.Millisecond, next(2*longest), "two are forgotten")
	require.Equal(t, 160*time.Millisecond, next(longest-1), "none is")
	require.Equal(t, firstPause, next(time.Hour))
	require.Equal(t, firstPause, next(longest), "a watch that stands for so long each time")
}

// Whatever happens, the cluster is never read again immediately, is read a few times soon, and then once in the
// longest pause.
func TestReadsAreBounded(t *testing.T) {
	const longest = 3 * time.Second
	for _, random := range []float64{0, backoff.NoJitter, 0.999} {
		for _, stood := range []time.Duration{0, time.Millisecond, time.Second, longest - 1, longest, 10 * longest} {
			var p ReadPauses
			reads, took := 0, time.Duration(0)
			for took < 10*time.Minute {
				var pause time.Duration
				p, pause = p.Next(stood, longest, random)
				require.GreaterOrEqual(t, pause, firstPause*4/5)
				took += stood + pause
				reads++
			}
			require.LessOrEqual(t, reads, 9+int(took/(longest*4/5)), "when each watch stands for %v", stood)
		}
	}
}

func TestSoonPause(t *testing.T) {
	require.Equal(t, firstPause, SoonPause(backoff.NoJitter))
	require.GreaterOrEqual(t, SoonPause(0), firstPause*4/5)
}
