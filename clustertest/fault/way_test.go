package fault

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdmit(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		way                way
		now, arrived, free int
		waiting, n         int
		wait               time.Duration
	}{
		"no fault":                    {way{}, 10, 10, 0, 100, 100, 0},
		"no fault, an end":            {way{}, 10, 10, 0, 0, 0, 0},
		"blackhole":                   {way{blackhole: true}, 10, 0, 0, 100, 0, -1},
		"blackhole before the others": {way{blackhole: true, delay: ms, rate: 1}, 10, 0, 0, 100, 0, -1},
		"delay, too early":            {way{delay: 30 * ms}, 10, 5, 0, 100, 0, 25 * ms},
		"delay, an end":               {way{delay: 30 * ms}, 10, 5, 0, 0, 0, 25 * ms},
		"delay, due":                  {way{delay: 30 * ms}, 35, 5, 0, 100, 100, 0},
		"throttle, a share":           {way{rate: 100 * sharesPerSecond}, 10, 10, 0, 1000, 100, 0},
		"throttle, less than a share": {way{rate: 100 * sharesPerSecond}, 10, 10, 0, 7, 7, 0},
		"throttle, line busy":         {way{rate: 100 * sharesPerSecond}, 10, 10, 15, 1000, 0, 5 * ms},
		"throttle, a byte at least":   {way{rate: 1}, 10, 10, 10, 1000, 1, 0},
		"line busy without throttle":  {way{}, 10, 10, 15, 1000, 1000, 0},
		"throttle and delay":          {way{rate: 100 * sharesPerSecond, delay: 30 * ms}, 10, 10, 15, 1000, 0, 30 * ms},
	} {
		n, wait := test.way.admitBytes(at(test.now), at(test.arrived), at(test.free), test.waiting)
		require.Equal(t, test.n, n, name)
		require.Equal(t, test.wait, wait, name)
	}
}

// TestCarry checks that a line that is always busy carries exactly its rate.
func TestCarry(t *testing.T) {
	for _, rate := range []int{1, 49, 50, 51, 1000, 1 << 30} {
		w := way{rate: rate}
		var free time.Time
		left, began := 2*rate, free
		for left > 0 {
			n, wait := w.admitBytes(free, began, free, left)
			require.Zero(t, wait)
			require.Positive(t, n)
			left -= n
			free = free.Add(w.carryTime(n))
		}
		require.InDelta(t, 2*time.Second, free.Sub(began), float64(time.Millisecond), "%d bytes a second", rate)
	}
	require.Zero(t, way{}.carryTime(1<<30))
}
