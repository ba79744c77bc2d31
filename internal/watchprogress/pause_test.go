package watchprogress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausesGrowAndAreForgotten(t *testing.T) {
	const longest = 300 * time.Millisecond
	var p Pauses
	next := func(stood time.Duration) (pause time.Duration) {
		p, pause = p.Next(stood, longest)
		return pause
	}
	for _, want := range []time.Duration{0, 50, 100, 200, 300, 300, 300} {
		require.Equal(t, want*time.Millisecond, next(0))
	}
	require.Equal(t, 100*time.Millisecond, next(2*longest), "two are forgotten")
	require.Equal(t, 200*time.Millisecond, next(longest-1), "none is")
	require.Zero(t, next(time.Hour))
	require.Zero(t, next(longest), "a watch that stands for so long each time")
}

// Whatever happens, the cluster is read a few times at once, and then once in the longest pause.
func TestReadsAreBounded(t *testing.T) {
	const longest = 3 * time.Second
	for _, stood := range []time.Duration{0, time.Millisecond, time.Second, longest - 1, longest, 10 * longest} {
		var p Pauses
		reads, took := 0, time.Duration(0)
		for took < 10*time.Minute {
			var pause time.Duration
			p, pause = p.Next(stood, longest)
			took += stood + pause
			reads++
		}
		require.LessOrEqual(t, reads, 8+int(took/longest), "when each watch stands for %v", stood)
	}
}
