package pace

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/race"
)

func TestAtOnce(t *testing.T) {
	require.Positive(t, PageFaultTime())
	most := 8 * runtime.GOMAXPROCS(0)
	if SlowMachine() || race.Enabled {
		require.Equal(t, most/2, ParallelTests(most))
	} else {
		require.Equal(t, most, ParallelTests(most))
	}
	require.Equal(t, runtime.GOMAXPROCS(0), ParallelTests(1), "as go test has it")
}

// A meter without load reports none, and one that was slowed down reports the slowdown of the present lap.
func TestMeter(t *testing.T) {
	m := &Meter{}
	require.EqualValues(t, 1, m.Slowdown())
	m.record(time.Millisecond, 0)
	m.record(1500*time.Microsecond, 0)
	require.EqualValues(t, 1, m.Slowdown(), "an idle machine is not always as fast")
	require.Equal(t, time.Second, m.Scale(time.Second))
	m.StartLap()
	for range 3 {
		m.record(6*time.Millisecond, 0)
	}
	require.InDelta(t, 4, m.Slowdown(), 0.001)
	require.InDelta(t, 4, m.Scale(time.Second).Seconds(), 0.001)

	running := StartMeter(t)
	require.Eventually(t, func() bool {
		running.mu.Lock()
		defer running.mu.Unlock()
		return running.n > 2 && running.best > 0
	}, time.Minute, time.Millisecond)
}
