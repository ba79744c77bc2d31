package suspicion

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func at(roundTrip time.Duration, ttl int64) *state.Member {
	return &state.Member{Record: state.Record{InstanceID: "i", RoundTripMS: roundTrip.Milliseconds(), TTL: ttl}}
}

func TestGracePeriod(t *testing.T) {
	const least = 100 * ms
	require.Equal(t, least, GracePeriod(least, ms, at(0, 10)), "near, or of a version that does not say")
	require.Equal(t, 300*ms, GracePeriod(least, 60*ms, at(0, 10)), "etcd is slow, or the accuser far")
	require.Equal(t, time.Second, GracePeriod(least, ms, at(200*ms, 10)), "the accused is far")
	require.Equal(t, 2*time.Second, GracePeriod(least, 400*ms, at(200*ms, 10)), "so is the accuser")
	require.Equal(t, 3*time.Second, GracePeriod(3*time.Second, ms, at(200*ms, 10)), "configured")
}

// The grace period of a member at one-way distance d is at least five times the time that a refutation needs,
// and at most the bound in the documentation.
func TestGracePeriodAtADistance(t *testing.T) {
	const least = 100 * ms
	for d := time.Duration(0); d < time.Second; d += 100 * time.Microsecond {
		trip := 2 * d
		m := at(NewDistance(ttl, 0, NewTrips(1, trip, trip, trip)...).RoundTrip(), 60)
		gracePeriod := GracePeriod(least, 0, m)
		require.GreaterOrEqual(t, gracePeriod, 5*trip, "%v", d)
		require.LessOrEqual(t, gracePeriod, max(least, 25*d/2), "%v", d)
	}
}

func TestLeftToLease(t *testing.T) {
	require.False(t, LeftToLease(at(0, 10)))
	require.False(t, LeftToLease(at(640*ms, 10)))
	require.True(t, LeftToLease(at(800*ms, 10)))
	require.True(t, LeftToLease(at(160*ms, 2)))
	require.True(t, LeftToLease(at(25*ms, 0)), "a record without a TTL")
	require.True(t, LeftToLease(at(time.Duration(math.MaxInt64), 10)), "a record that somebody altered")
	require.False(t, LeftToLease(&state.Member{Record: state.Record{InstanceID: "i", RoundTripMS: -1}}))
	require.True(t, LeftToLease(&state.Member{}), "the record is unreadable")
	require.True(t, LeftToLease(&state.Member{Record: state.Record{InstanceID: "i", ElectionOnly: true}}))
	for trip := nearLimit; trip < 2*time.Second; trip += 7 * ms {
		ttl := LeastTTL(trip)
		require.False(t, LeftToLease(at(trip, int64(ttl/time.Second))))
		require.True(t, LeftToLease(at(trip, int64(ttl/time.Second)-1)))
	}
}

// A member that is removed alive continues for at most two of the least grace periods at any distance, as far
// as this package determines it.
func TestConfirmedSoonAfterTheGracePeriod(t *testing.T) {
	const least = 100 * ms
	require.Equal(t, 3*least, ConfirmWithin(least, nil))
	for _, trip := range []time.Duration{0, 25 * ms, 200 * ms, 480 * ms} {
		m := at(trip, 10)
		require.Equal(t, 2*least, ConfirmWithin(least, m)-GracePeriod(least, 0, m))
		require.GreaterOrEqual(t, ConfirmWithin(least, m), 2*2*trip, "two rounds of two requests fit in")
	}
}
