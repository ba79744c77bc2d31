package suspicion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

var noon = time.Unix(1_000_000, 0)

func TestSteps(t *testing.T) {
	for trip, want := range map[time.Duration]time.Duration{0: 0, 20 * ms: 0, 20*ms + 1: 25 * ms, 25 * ms: 25 * ms, 26 * ms: 30 * ms,
		40 * ms: 40 * ms, 41 * ms: 50 * ms, 79 * ms: 80 * ms, 81 * ms: 100 * ms, 161 * ms: 200 * ms, 401 * ms: 480 * ms} {
		require.Equal(t, want, stepUp(trip), "%v", trip)
	}
	rapid.Check(t, func(t *rapid.T) {
		trip := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "trip"))
		step := stepUp(trip)
		require.Equal(t, step, stepUp(step), "a step is its own")
		require.Zero(t, step%ms, "it is told in milliseconds")
		if trip > near {
			require.GreaterOrEqual(t, step, trip)
			require.Less(t, step, trip*5/4+1)
		}
	})
}

// Two of six decide: one slow request is none, and an endpoint that is far is there.
func TestDistanceOfTheStart(t *testing.T) {
	require.Zero(t, At(noon).RoundTrip())
	require.Equal(t, 200*ms, At(noon, 161*ms).RoundTrip())
	require.Equal(t, 200*ms, At(noon, ms, 161*ms).RoundTrip(), "of two the greater")
	require.Zero(t, At(noon, ms, 161*ms, 2*ms).RoundTrip())
	require.Zero(t, At(noon, ms, ms, ms, 161*ms, ms, ms).RoundTrip())
	require.Equal(t, 100*ms, At(noon, ms, ms, 100*ms, ms, ms, 100*ms).RoundTrip())
}

// Of three endpoints of etcd one is far: the watch may be there.
func TestDistanceOfOneEndpointOfThree(t *testing.T) {
	for first := range 3 {
		d := At(noon, ms, ms, ms)
		for i := range samples + 1 {
			trip := ms
			if i%3 == first {
				trip = 100 * ms
			}
			d = d.Measured(noon.Add(time.Duration(i)*time.Second), trip)
		}
		require.Equal(t, 100*ms, d.RoundTrip())
	}
}

func TestDistanceGrowsAtOnceAndShrinksAfterAMinute(t *testing.T) {
	d, now := At(noon, ms, ms, ms), noon
	after := func(pause, trip time.Duration) time.Duration {
		now = now.Add(pause)
		d = d.Measured(now, trip)
		return d.RoundTrip()
	}
	require.Zero(t, after(time.Second, 161*ms), "one is slow")
	require.Equal(t, 200*ms, after(time.Second, 161*ms), "two are")
	for range 59 {
		require.Equal(t, 200*ms, after(2*time.Second, ms), "not within a minute; and the next began with the last of these")
	}
	require.Zero(t, after(2*time.Second, ms), "a minute of all")
}

// A distance that is constant but for less than a fifth is told once, wherever it lies
// between two steps.
func TestConstantDistanceIsToldOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(int64(26*ms), int64(time.Second)).Draw(t, "least"))
		trip := rapid.Int64Range(int64(least), int64(least*119/100))
		d := At(noon, least, least, least*119/100)
		for range 3 { // the steps up, if it began low
			d = d.Measured(noon, least*119/100)
		}
		told := d.RoundTrip()
		for i := range 60 {
			d = d.Measured(noon.Add(time.Duration(i)*5*time.Second), time.Duration(trip.Draw(t, "trip")))
			require.Equal(t, told, d.RoundTrip())
		}
	})
}

// However the requests take, less is recorded at most once a minute; and never less than
// the second greatest of the last six.
func TestDistanceIsSeldomRecordedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, now := At(noon, ms), noon
		shrunk := noon
		for range 200 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
			before := d.RoundTrip()
			d = d.Measured(now, time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "trip")))
			require.GreaterOrEqual(t, d.RoundTrip(), stepUp(d.second()))
			if d.RoundTrip() < before {
				require.GreaterOrEqual(t, now.Sub(shrunk), shrinkAfter)
				require.LessOrEqual(t, 3*d.RoundTrip(), 2*before)
				shrunk = now
			}
		}
	})
}
