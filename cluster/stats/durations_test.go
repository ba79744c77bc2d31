package stats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDurations(t *testing.T) {
	d := NewDurations(time.Millisecond, time.Second)
	for _, took := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, time.Hour} {
		d.Observe(took)
	}
	before := d.Clone()
	d.Observe(0)
	require.Equal(t, Durations{Count: 4, Sum: time.Hour + 3*time.Millisecond,
		Buckets: []Bucket{{time.Millisecond, 2}, {time.Second, 3}}}, before)
	require.EqualValues(t, 5, d.Count)
	var none Durations
	none.Observe(time.Second)
	require.Equal(t, Durations{Count: 1, Sum: time.Second}, none)
}
