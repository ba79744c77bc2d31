package suspicion

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/state"
)

const ms = time.Millisecond

var noon = time.Unix(1_000_000, 0)

// ttl is long enough that a member with requests of one second is not left to its lease.
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
		if trip > nearLimit {
			require.GreaterOrEqual(t, step, trip)
			require.Less(t, step, trip*5/4+1)
		}
		if trip >= nearLimit*5/4 {
			require.GreaterOrEqual(t, down, trip*4/5)
		}
	})
}

// to returns a round trip to the only member of etcd.
func to(took time.Duration) Trip { return Trip{Member: 1, Took: took} }

// The least round trip decides: the remainder is load.
func TestDistanceOfTheStart(t *testing.T) {
	require.Zero(t, NewDistance(ttl, 0).RoundTrip())
	require.Equal(t, 200*ms, NewDistance(ttl, 0, to(161*ms)).RoundTrip())
	require.Zero(t, NewDistance(ttl, 0, NewTrips(1, ms, 161*ms)...).RoundTrip())
	require.Zero(t, NewDistance(ttl, 0, NewTrips(1, 161*ms, 161*ms, 161*ms, ms, 161*ms, 161*ms)...).RoundTrip())
	require.Equal(t, 100*ms, NewDistance(ttl, 0, NewTrips(1, 300*ms, 400*ms, 100*ms)...).RoundTrip())
}

// One of three endpoints of etcd is far, and the watch may be there. The endpoints are asked in turn or at
// random, and all of them are slow now and then.
func TestDistanceOfOneEndpointOfThree(t *testing.T) {
	for first := range 3 {
		d := NewDistance(ttl, 0, append(append(NewTrips(1, ms, ms), NewTrips(2, ms, ms)...), NewTrips(3, ms, ms)...)...)
		for i := range 3 * tripSamples {
			trip := Trip{Member: uint64(1 + i%3), Took: ms}
			if i%3 == first {
				trip.Took = 100 * ms
			}
			d = d.OnTrip(noon.Add(time.Duration(i)*time.Second), trip)
		}
		require.Equal(t, 100*ms, d.RoundTrip())
	}
	rapid.Check(t, func(t *rapid.T) {
		d := NewDistance(ttl, 0, append(append(NewTrips(1, ms, ms), NewTrips(2, ms, ms)...),
			NewTrips(3, 100*ms, 100*ms)...)...)
		others, now := 0, noon
		for range 100 {
			now = now.Add(shrinkEvery)
			trip := Trip{Member: rapid.Uint64Range(1, 3).Draw(t, "member")}
			if others++; trip.Member == 3 {
				trip.Took, others = 100*ms, 0
			}
			if others == forgottenAfter {
				return
			}
			trip.Took += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "load"))
			d = d.OnTrip(now, trip)
			require.GreaterOrEqual(t, d.RoundTrip(), 100*ms)
		}
	})
}

// Load on the machine does not count as distance as long as one of three requests is not delayed.
func TestLoadIsNoDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, slow := NewDistance(ttl, 0, NewTrips(1, ms, ms, ms)...), 0
		for i := range 100 {
			took := time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "took"))
			if slow++; slow == tripSamples || took <= nearLimit {
				took, slow = min(took, nearLimit), 0
			}
			d = d.OnTrip(noon.Add(time.Duration(i)*time.Second), to(took))
			require.Zero(t, d.RoundTrip())
		}
	})
}

// A member of etcd that is gone does not count as distance forever. Any number of members may come and go one
// after the other.
func TestDistanceOfAMemberThatIsGone(t *testing.T) {
	d := NewDistance(ttl, 0, append(NewTrips(1, ms, ms), NewTrips(2, 100*ms, 100*ms)...)...)
	require.Equal(t, 100*ms, d.RoundTrip())
	for range forgottenAfter {
		d = d.OnTrip(noon, to(ms))
	}
	require.Zero(t, d.RoundTrip())
	for member := range uint64(100) {
		for range 2 {
			d = d.OnTrip(noon.Add(time.Duration(member)*time.Hour), Trip{Member: member, Took: 100 * ms})
		}
		require.Equal(t, 100*ms, d.RoundTrip())
	}
	once := NewDistance(10*time.Second, 0, append(NewTrips(1, ms, ms), NewTrips(2, 2*time.Second)...)...)
	require.Equal(t, farthestStep(10*time.Second), once.RoundTrip(), "one that answered once leaves nobody to its lease")
}

func TestDistanceGrowsSoonAndShrinksOnceAMinute(t *testing.T) {
	d, now := NewDistance(ttl, 0, NewTrips(1, ms, ms, ms)...), noon
	after := func(pause, trip time.Duration) time.Duration {
		now = now.Add(pause)
		d = d.OnTrip(now, to(trip))
		return d.RoundTrip()
	}
	require.Zero(t, after(time.Second, 161*ms), "one is slow")
	require.Zero(t, after(time.Second, 161*ms), "two are")
	require.Equal(t, 200*ms, after(time.Second, 161*ms), "three are")
	require.Zero(t, after(time.Second, ms), "the least is")
	for range 2 {
		require.Zero(t, after(time.Second, 161*ms))
	}
	require.Equal(t, 200*ms, after(time.Second, 161*ms))
	for range 56 {
		require.Equal(t, 200*ms, after(time.Second, ms), "not twice within a minute")
	}
	require.Zero(t, after(time.Second, ms))
}

// An etcd that stands still for a moment does not make a member so far that it is left to its lease. Three
// requests in a row that take so long do, for as long as they last.
func TestWhoIsLeftToItsLease(t *testing.T) {
	const ttl = 10 * time.Second
	left := func(d Distance) bool {
		r := state.Record{InstanceID: "i", TTL: int64(ttl / time.Second), RoundTripMS: d.RoundTrip().Milliseconds()}
		return LeftToLease(&state.Member{Record: r})
	}
	d, now := NewDistance(ttl, 0, NewTrips(1, ms, ms, ms)...), noon
	for range 2 {
		d = d.OnTrip(now, to(2*time.Second))
		require.False(t, left(d))
	}
	d = d.OnTrip(now, to(2*time.Second))
	require.True(t, left(d), "three")
	for range 10 { // any earlier records, at any time
		d = d.OnTrip(now, to(ms))
		require.False(t, left(d))
		d = d.OnTrip(now, to(ms))
	}
	require.True(t, left(NewDistance(ttl, 0, to(time.Second))))
	require.True(t, left(NewDistance(ttl, 0, NewTrips(1, time.Second, time.Second)...)))
	require.False(t, left(NewDistance(ttl, 0, NewTrips(1, time.Second, time.Second, ms)...)))
	require.False(t, left(NewDistance(ttl, 0, NewTrips(1, time.Second, ms)...)))

	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.IntRange(1, 300).Draw(t, "ttl")) * time.Second
		m := &state.Member{Record: state.Record{InstanceID: "i", TTL: int64(ttl / time.Second),
			RoundTripMS: farthestStep(ttl).Milliseconds()}}
		require.False(t, LeftToLease(m))
		require.Greater(t, GracePeriod(0, 0, m), ttl/5, "longer than a request of a session's round may take")
		m.RoundTripMS = stepUp(farthestStep(ttl) + ms).Milliseconds()
		require.True(t, LeftToLease(m))
	})
}

// A distance that is constant to within a fifth is reported once, wherever it lies between two steps.
func TestConstantDistanceIsToldOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(int64(26*ms), int64(time.Second)).Draw(t, "least"))
		trip := rapid.Int64Range(int64(least), int64(least*119/100))
		d := NewDistance(ttl, 0, NewTrips(1, least, least, least*119/100)...)
		for range 3 { // the steps up, if it began low
			d = d.OnTrip(noon, to(least*119/100))
		}
		said := d.RoundTrip()
		for i := range 60 {
			d = d.OnTrip(noon.Add(time.Duration(i)*5*time.Second), to(time.Duration(trip.Draw(t, "trip"))))
			require.Equal(t, said, d.RoundTrip())
		}
	})
}

// Whatever the durations of the requests, a smaller distance is recorded at most once a minute, and never one
// below the least of the last three.
func TestDistanceIsSeldomRecordedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, now := NewDistance(ttl, 0, to(ms)), noon
		shrunk := noon.Add(-shrinkEvery)
		for range 200 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
			before := d.RoundTrip()
			d = d.OnTrip(now, to(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "trip"))))
			require.GreaterOrEqual(t, d.RoundTrip(), d.measuredStep())
			if d.RoundTrip() < before {
				require.GreaterOrEqual(t, now.Sub(shrunk), shrinkEvery)
				require.LessOrEqual(t, 3*d.RoundTrip(), 2*before)
				shrunk = now
			}
		}
	})
}

// A distance that goes up and down under load is logged when it has doubled, once a minute. A lasting one is
// logged, too, as soon as the minute is over.
func TestLinesAboutADistance(t *testing.T) {
	lines := func(began LoggedDistance, trips ...time.Duration) (all []time.Duration) {
		l := began
		for i, trip := range trips { // one every five seconds
			if now := noon.Add(time.Duration(i) * 5 * time.Second); l.Outdated(now, trip) {
				l = LoggedDistance{RoundTrip: trip, At: now}
				all = append(all, trip)
			}
		}
		return all
	}
	require.Equal(t, []time.Duration{60 * ms}, lines(LoggedDistance{}, 35*ms, 60*ms, 40*ms, 50*ms, 70*ms))
	require.Empty(t, lines(LoggedDistance{}, 0, 25*ms, 0, 30*ms, 39*ms), "near is near")
	lasting := slices.Repeat([]time.Duration{100 * ms}, 12)
	require.Equal(t, []time.Duration{40 * ms, 100 * ms}, lines(LoggedDistance{},
		append([]time.Duration{40 * ms}, lasting...)...))
	require.Equal(t, []time.Duration{100 * ms, 40 * ms}, lines(LoggedDistance{}, append(lasting, 40*ms)...), "and back")
	require.Empty(t, lines(LoggedDistance{RoundTrip: 100 * ms}, lasting...), "what was measured at the start")
}

// A member that is too far for its silence time-out while etcd is slow has it again as soon as etcd is not, however
// often.
func TestDistanceTooFarForSilence(t *testing.T) {
	const timeout = 3500 * ms
	d := NewDistance(ttl, timeout, NewTrips(1, 900*ms, 900*ms)...)
	for range 5 {
		require.True(t, d.TooFar())
		require.True(t, TooFarForSilence(d.RoundTrip(), timeout))
		require.False(t, TooFar(d.RoundTrip(), ttl))
		d = d.OnTrip(noon, to(ms))
		require.False(t, d.TooFar())
		require.False(t, TooFarForSilence(d.RoundTrip(), timeout))
		for range tripSamples {
			d = d.OnTrip(noon, to(900*ms))
		}
	}
	require.False(t, NewDistance(ttl, timeout, to(farthestForSilence(timeout))).TooFar())
	require.True(t, NewDistance(ttl, timeout, to(farthestForSilence(timeout)+1)).TooFar())
	require.False(t, NewDistance(ttl, 0, to(900*ms)).TooFar(), "it has none")
	once := NewDistance(ttl, timeout, append(NewTrips(1, ms, ms), NewTrips(2, 2*time.Second)...)...)
	require.False(t, once.TooFar(), "one slow answer, just after a fault perhaps")
	require.Equal(t, farthestForSilence(timeout), once.RoundTrip())
}
