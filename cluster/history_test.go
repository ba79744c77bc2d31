package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/histogram/samples"
)

// Readings are due at multiples of the interval, also after a late one.
func TestNextSample(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{0: 20 * time.Second, 7 * time.Second: 13 * time.Second,
		19_999 * time.Millisecond: time.Millisecond, 55 * time.Second: 5 * time.Second} {
		require.Equal(t, want, untilNextSample(noon.Add(after)), "%v", after)
	}
}

// A service has not failed if its caller made the mistake. A call that was never started has.
func TestCountCalls(t *testing.T) {
	require.Equal(t, samples.Calls{Ended: 17, Failed: 10}, countCalls(objects.ServiceStats{
		Methods: []objects.MethodStats{{Calls: map[codes.Code]int64{codes.OK: 5, codes.NotFound: 4, codes.Internal: 3},
			Refused: map[codes.Code]int64{codes.ResourceExhausted: 2}}, {Calls: map[codes.Code]int64{codes.Unavailable: 5}}}}))
}

// The lag is that of the processors that run here; it is unknown without any.
func TestLag(t *testing.T) {
	require.EqualValues(t, -1, lagOf(nil))
	require.EqualValues(t, -1, lagOf([]processor.Status{{Leading: true, Lag: -1}, {Lag: 7}}))
	require.EqualValues(t, 5, lagOf([]processor.Status{{Leading: true, Lag: 2}, {Leading: true, Lag: 3},
		{Leading: true, Lag: -1}, {Lag: 7}}))
}
