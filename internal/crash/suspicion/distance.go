package suspicion

import (
	"math/bits"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

const (
	// nearLimit is the longest round trip that a record leaves out. Five of these fit into the default grace period.
	nearLimit = 20 * time.Millisecond
	// tripSamples is the number of the last round trips to one member of etcd of which the least counts. Load only
	// makes a request slower than the distance, never faster.
	tripSamples = 3
	// maxEtcdMembers limits the number of members of etcd for which round trips are kept. A member of etcd that
	// answers none of the last forgottenAfter round trips is forgotten: it is gone, or is no longer asked.
	maxEtcdMembers, forgottenAfter = 9, 60
	// shrinkEvery is the shortest time between two recordings of a smaller distance.
	shrinkEvery = time.Minute
	// logEvery is the shortest time between two log lines about a distance.
	logEvery = time.Minute
)

// Trip is the duration of a request that a member of etcd answered.
type Trip struct {
	Member uint64 // from the header of its answer
	Took   time.Duration
}

// NewTrips returns trips with these durations, all answered by one member of etcd.
func NewTrips(member uint64, took ...time.Duration) (trips []Trip) {
	for _, t := range took {
		trips = append(trips, Trip{member, t})
	}
	return trips
}

// Distance is a member's distance from etcd: the measured round trip of one request, and the value in the
// member's record. It is a value; begin with NewDistance.
//
// The distance to one member of etcd is the least of the last three round trips to it; the remainder is load,
// of etcd or of this machine. The distance from etcd is the greatest of these, because etcd's client uses its
// endpoints in turn, and the watch may be at the farthest one.
//
// The recorded value is that distance, rounded up to one of four steps in each doubling. It grows as soon as
// the distance does. It shrinks when the distance is at most two thirds of it, once a minute at most; it
// shrinks immediately if the member was too far for its lease or its silence time-out and no longer is. So a member at
// a constant distance never rewrites its record. One at a changing distance rewrites it at most once a minute to reduce
// the value, and in between once for each step up.
type Distance struct {
	limits   [2]time.Duration // the greatest steps that are not too far for the silence time-out, and for the lease
	trips    [maxEtcdMembers]etcdTrips
	n        int // number of round trips so far
	recorded time.Duration
	shrunk   time.Time // when recorded last shrank
}

// etcdTrips holds the round trips to one member of etcd.
type etcdTrips struct {
	member     uint64
	last       [tripSamples]time.Duration
	n          int // number measured; 0: the entry is unused
	lastNumber int // the last one's number among all round trips
}

// leastTrip returns the least of the last tripSamples round trips.
func (w etcdTrips) leastTrip() time.Duration { return slices.Min(w.last[:min(w.n, tripSamples)]) }

// NewDistance returns the distance of a member that starts with sessions of the given TTL and with that silence
// time-out, 0 for none, from the given round trips. One is enough; two for each member of etcd are better.
func NewDistance(ttl, silenceTimeout time.Duration, trips ...Trip) Distance {
	d := Distance{limits: [2]time.Duration{farthestStep(ttl), farthestStep(ttl)}}
	if silenceTimeout > 0 {
		d.limits[0] = min(d.limits[0], farthestForSilence(silenceTimeout))
	}
	for _, t := range trips {
		d = d.addTrip(t)
	}
	d.recorded = d.measuredStep()
	return d
}

// OnTrip returns the distance after one more request, at now.
func (d Distance) OnTrip(now time.Time, trip Trip) Distance {
	d = d.addTrip(trip)
	said := d.measuredStep()
	back := slices.ContainsFunc(d.limits[:], func(limit time.Duration) bool { return d.recorded > limit && said <= limit })
	switch {
	case said == d.recorded:
	case said > d.recorded:
		d.recorded = said
	case back, 3*said <= 2*d.recorded && now.Sub(d.shrunk) >= shrinkEvery:
		d.recorded, d.shrunk = said, now
	}
	return d
}

// RoundTrip returns the value for the record: 0 for a member that is near.
func (d Distance) RoundTrip() time.Duration { return d.recorded }

// addTrip counts a round trip. If all entries are in use, it replaces the member of etcd that answered longest ago.
func (d Distance) addTrip(t Trip) Distance {
	place := 0
	for i, w := range d.trips {
		if w.n > 0 && w.member == t.Member {
			place = i
			break
		}
		if w.lastNumber < d.trips[place].lastNumber {
			place = i
		}
	}
	w := &d.trips[place]
	if w.n == 0 || w.member != t.Member {
		*w = etcdTrips{member: t.Member}
	}
	d.n++
	w.last[w.n%tripSamples] = t.Took
	w.n, w.lastNumber = w.n+1, d.n
	return d
}

// TooFar reports whether the member is too far from etcd for its lease or its silence time-out, by its record.
func (d Distance) TooFar() bool { return d.recorded > d.limits[0] }

// measuredStep returns the distance by the last round trips, as a step. A member of etcd that has answered only once,
// beside others that have answered more often, never makes the distance so large that the member is too far for its
// silence time-out, or left to its lease.
func (d Distance) measuredStep() (far time.Duration) {
	var once time.Duration
	known := false
	for _, w := range d.trips {
		switch {
		case w.n == 0 || d.n-w.lastNumber >= forgottenAfter:
		case w.n == 1:
			once = max(once, w.leastTrip())
		default:
			far, known = max(far, w.leastTrip()), true
		}
	}
	if once = stepUp(once); known {
		once = min(once, d.limits[0])
	}
	return max(stepUp(far), once)
}

// LoggedDistance is the distance in the last log line, with its time.
type LoggedDistance struct {
	RoundTrip time.Duration
	At        time.Time
}

// Outdated reports whether the distance should be logged again: it has doubled or halved, and the last line is
// at least a minute old. Smaller steps up and down are load.
func (l LoggedDistance) Outdated(now time.Time, roundTrip time.Duration) bool {
	former, present := max(l.RoundTrip, nearLimit), max(roundTrip, nearLimit)
	return (present >= 2*former || former >= 2*present) && now.Sub(l.At) >= logEvery
}

// farthestStep returns the greatest step at which a member is not left to its lease. The resulting grace period is
// longer than any request that a session's round waits for, a fifth of the TTL.
func farthestStep(ttl time.Duration) time.Duration { return stepDown(ttl / (periodsPerTTL * slowdown)) }

// farthestForSilence returns the greatest step at which a member has that silence time-out.
func farthestForSilence(timeout time.Duration) time.Duration {
	return stepDown(deadline.ProofTimesOf(timeout).Read / tripsPerRead)
}

// stepUp returns the smallest step that is not less than the round trip. A step is nearLimit times 5/4, 6/4, 7/4 or
// 8/4 of a power of two. For a round trip up to nearLimit, stepUp returns 0.
func stepUp(roundTrip time.Duration) time.Duration {
	if roundTrip <= nearLimit {
		return 0
	}
	octave := nearLimit << (bits.Len64(uint64((roundTrip-1)/nearLimit)) - 1)
	quarter := octave / 4
	return octave + (roundTrip-octave+quarter-1)/quarter*quarter
}

// stepDown returns the greatest step that is not greater than the round trip, 0 if there is none.
func stepDown(roundTrip time.Duration) time.Duration {
	if roundTrip < nearLimit*5/4 {
		return 0
	}
	octave := nearLimit << (bits.Len64(uint64(roundTrip/nearLimit)) - 1)
	quarter := octave / 4
	return octave + (roundTrip-octave)/quarter*quarter
}
