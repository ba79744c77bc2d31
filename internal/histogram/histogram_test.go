package histogram

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/stats"
)

func TestDurations(t *testing.T) {
	d := NewDurations(time.Millisecond, time.Second)
	for _, took := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, time.Hour} {
		d.Observe(took)
	}
	before := d.Snapshot()
	d.Observe(0)
	require.Equal(t, stats.Durations{Count: 4, Sum: time.Hour + 3*time.Millisecond,
		Buckets: []stats.Bucket{{AtMost: time.Millisecond, Count: 2}, {AtMost: time.Second, Count: 3}}}, before)
	require.EqualValues(t, 5, d.Snapshot().Count)
	none := NewDurations()
	none.Observe(time.Second)
	require.Equal(t, stats.Durations{Count: 1, Sum: time.Second, Buckets: []stats.Bucket{}}, none.Snapshot())
}
