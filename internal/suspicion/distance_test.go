package suspicion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/state"
)

const ms = time.Millisecond

var noon = time.Unix(1_000_000, 0)

// ttl leaves nobody to its lease whose requests take a second.
const ttl = 20 * time.Second

func TestSteps(t *testing.T) {
	for trip, want := range map[time.Duration]time.Duration{0: 0, 20 * ms: 0, 20*ms +
		1: 25 * ms, 25 * ms: 25 * ms, 26 * ms: 30 * ms,
		40 * ms: 40 * ms, 41 * ms: 50 * ms, 79 * ms: 80 * ms, 81 * ms: 100 * ms, 161 * ms: 200 * ms, 401 * ms: 480 * ms} {
		require.Equal(t, want, stepUp(trip), "%v", trip)
	}
	rapid.Check(t, func(t *rapid.T) {
		trip := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "trip"))
		step := stepUp(trip)
		require.Equal(t, step, stepUp(step), "a step is its own")
		require.Zero(t, step%ms, "it is reported in milliseconds")
		down := stepDown(trip)
		require.Equal(t, down, stepUp(down), "a step is its own")
		require.LessOrEqual(t, down, trip)
		if trip > near {
			require.GreaterOrEqual(t, step, trip)
			require.Less(t, step, trip*5/4+1)
		}
		if trip >= near*5/4 {
			require.GreaterOrEqual(t, down, trip*4/5)
		}
	})
}

// Two of six decide: one slow request is none, and an endpoint that is far is there.
func TestDistanceOfTheStart(t *testing.T) {
	require.Zero(t, At(ttl).RoundTrip())
	require.Equal(t, 200*ms, At(ttl, 161*ms).RoundTrip())
	require.Equal(t, 200*ms, At(ttl, ms, 161*ms).RoundTrip(), "of two the greater")
	require.Zero(t, At(ttl, ms, 161*ms, 2*ms).RoundTrip())
	require.Zero(t, At(ttl, ms, ms, ms, 161*ms, ms, ms).RoundTrip())
	require.Equal(t, 100*ms, At(ttl, ms, ms, 100*ms, ms, ms, 100*ms).RoundTrip())
}

// Of three endpoints of etcd one is far: the watch may be there.
func TestDistanceOfOneEndpointOfThree(t *testing.T) {
	for first := range 3 {
		d := At(ttl, ms, ms, ms)
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

func TestDistanceGrowsAtOnceAndShrinksOnceAMinute(t *testing.T) {
	d, now := At(ttl, ms, ms, ms), noon
	after := func(pause, trip time.Duration) time.Duration {
		now = now.Add(pause)
		d = d.Measured(now, trip)
		return d.RoundTrip()
	}
	require.Zero(t, after(time.Second, 161*ms), "one is slow")
	require.Equal(t, 200*ms, after(time.Second, 161*ms), "two are")
	for range 4 {
		require.Equal(t, 200*ms, after(time.Second, ms), "they are among the last six")
	}
	require.Zero(t, after(time.Second, ms))
	require.Zero(t, after(time.Second, 161*ms))
	require.Equal(t, 200*ms, after(time.Second, 161*ms))
	for range 57 {
		require.Equal(t, 200*ms, after(time.Second, ms), "not twice within a minute")
	}
	require.Zero(t, after(time.Second, ms))
}

// An etcd that stands still for a moment makes nobody so far that it is left to its lease; most of
// the last six requests do, and as long as they do.
func TestWhoIsLeftToItsLease(t *testing.T) {
	const ttl = 10 * time.Second
	limit := farthest(ttl)
	left := func(d Distance) bool {
		r := state.Record{TTL: int64(ttl / time.Second), RoundTripMS: d.RoundTrip().Milliseconds()}
		return LeftToLease(&state.Member{Record: r})
	}
	d, now := At(ttl, ms, ms, ms, ms, ms, ms), noon
	for range 3 {
		d = d.Measured(now, 2*time.Second)
		require.False(t, left(d))
	}
	require.Equal(t, limit, d.RoundTrip())
	d = d.Measured(now, 2*time.Second)
	require.True(t, left(d), "four of six")
	for range 2 {
		d = d.Measured(now, ms)
		require.True(t, left(d), "still four of the last six")
	}
	for range 10 { // whatever was recorded, and when
		d = d.Measured(now, ms)
		require.False(t, left(d))
		d = d.Measured(now, ms)
	}
	require.True(t, left(At(ttl, time.Second)))
	require.True(t, left(At(ttl, time.Second, time.Second, ms)))
	require.False(t, left(At(ttl, time.Second, ms)))

	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.IntRange(1, 300).Draw(t, "ttl")) * time.Second
		m := &state.Member{Record: state.Record{TTL: int64(ttl / time.Second), RoundTripMS: farthest(ttl).Milliseconds()}}
		require.False(t, LeftToLease(m))
		require.Greater(t, GracePeriod(0, 0, m), ttl/5, "longer than a request of a session's round may take")
		m.RoundTripMS = stepUp(farthest(ttl) + ms).Milliseconds()
		require.True(t, LeftToLease(m))
	})
}

// A distance that is constant but for less than a fifth is notified once, wherever it lies
// between two steps.
func TestConstantDistanceIsToldOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(int64(26*ms), int64(time.Second)).Draw(t, "least"))
		trip := rapid.Int64Range(int64(least), int64(least*119/100))
		d := At(ttl, least, least, least*119/100)
		for range 3 { // the steps up, if it began low
			d = d.Measured(noon, least*119/100)
		}
		said := d.RoundTrip()
		for i := range 60 {
			d = d.Measured(noon.Add(time.Duration(i)*5*time.Second), time.Duration(trip.Draw(t, "trip")))
			require.Equal(t, said, d.RoundTrip())
		}
	})
}

// However the requests take, less is recorded at most once a minute; and never less than
// the second greatest of the last six.
func TestDistanceIsSeldomRecordedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, now := At(ttl, ms), noon
		shrunk := noon.Add(-shrinkEvery)
		for range 200 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
			before := d.RoundTrip()
			d = d.Measured(now, time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "trip")))
			require.GreaterOrEqual(t, d.RoundTrip(), d.said())
			if d.RoundTrip() < before {
				require.GreaterOrEqual(t, now.Sub(shrunk), shrinkEvery)
				require.LessOrEqual(t, 3*d.RoundTrip(), 2*before)
				shrunk = now
			}
		}
	})
}
