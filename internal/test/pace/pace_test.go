package pace

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
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

// A process that a test starts measures nothing anew: the load of that moment would give another answer.
func TestProcessesAgree(t *testing.T) {
	if ofParent := os.Getenv("PACE_TEST_PARENT"); ofParent != "" {
		require.Equal(t, ofParent, TTL(time.Second).String())
		return
	}
	for _, slow := range []string{"true", "false"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestProcessesAgree$")
		ttl := TTL(time.Second)
		if slow != strconv.FormatBool(SlowMachine()) {
			ttl = map[string]time.Duration{"true": 2 * ttl, "false": ttl / 2}[slow]
		}
		cmd.Env = append(os.Environ(), envSlow+"="+slow, "PACE_TEST_PARENT="+ttl.String())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Equal(t, strconv.FormatBool(SlowMachine()), os.Getenv(envSlow), "processes inherit it")
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
