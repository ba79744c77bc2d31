package suspicion

import (
	"math/bits"
	"slices"
	"time"
)

const (
	// near is the longest round trip that a record leaves out. Five of these fit into the default grace period.
	near = 20 * time.Millisecond
	// samples is the number of the last round trips to one member of etcd of which the least counts. Load only
	// makes a request slower than the distance, never faster.
	samples = 3
	// members limits the number of members of etcd for which round trips are kept. A member of etcd that
	// answers none of the last forgotten round trips is forgotten: it is gone, or is no longer asked.
	members, forgotten = 9, 60
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

// Trips returns trips with these durations, all answered by one member of etcd.
func Trips(member uint64, took ...time.Duration) (trips []Trip) {
	for _, t := range took {
		trips = append(trips, Trip{member, t})
	}
	return trips
}

// Distance is a member's distance from etcd: the measured round trip of one request, and the value in the
// member's record. It is a value; begin with At.
//
// The distance to one member of etcd is the least of the last three round trips to it; the remainder is load,
// of etcd or of this machine. The distance from etcd is the greatest of these, because etcd's client uses its
// endpoints in turn, and the watch may be at the farthest one.
//
// The recorded value is that distance, rounded up to one of four steps in each doubling. It grows as soon as
// the distance does. It shrinks when the distance is at most two thirds of it, once a minute at most; it
// shrinks immediately if the member was left to its lease and no longer needs to be. So a member at a constant
// distance never rewrites its record. One at a changing distance rewrites it at most once a minute to reduce
// the value, and in between once for each step up.
type Distance struct {
	ttl      time.Duration
	ways     [members]way
	n        int // number of round trips so far
	recorded time.Duration
	shrunk   time.Time // when recorded last shrank
}

// way holds the round trips to one member of etcd.
type way struct {
	member uint64
	last   [samples]time.Duration
	n      int // number measured; 0: the entry is unused
	heard  int // the last one's number among all round trips
}

// least returns the least of the last samples round trips.
func (w way) least() time.Duration { return slices.Min(w.last[:min(w.n, samples)]) }

// At returns the distance of a member that starts with sessions of the given TTL, from the given round trips.
// One is enough; two for each member of etcd are better.
func At(ttl time.Duration, trips ...Trip) Distance {
	d := Distance{ttl: ttl}
	for _, t := range trips {
		d = d.add(t)
	}
	d.recorded = d.said()
	return d
}

// Measured returns the distance after one more request, at now.
func (d Distance) Measured(now time.Time, trip Trip) Distance {
	d = d.add(trip)
	said, limit := d.said(), farthest(d.ttl)
	switch back := d.recorded > limit && said <= limit; {
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

// add counts a round trip. If all entries are in use, it replaces the member of etcd that answered longest ago.
func (d Distance) add(t Trip) Distance {
	place := 0
	for i, w := range d.ways {
		if w.n > 0 && w.member == t.Member {
			place = i
			break
		}
		if w.heard < d.ways[place].heard {
			place = i
		}
	}
	w := &d.ways[place]
	if w.n == 0 || w.member != t.Member {
		*w = way{member: t.Member}
	}
	d.n++
	w.last[w.n%samples] = t.Took
	w.n, w.heard = w.n+1, d.n
	return d
}

// said returns the distance by the last round trips, as a step. A member of etcd that has answered only once,
// beside others that have answered more often, never makes the distance so large that the member is left to its
// lease.
func (d Distance) said() (far time.Duration) {
	var once time.Duration
	known := false
	for _, w := range d.ways {
		switch {
		case w.n == 0 || d.n-w.heard >= forgotten:
		case w.n == 1:
			once = max(once, w.least())
		default:
			far, known = max(far, w.least()), true
		}
	}
	if once = stepUp(once); known {
		once = min(once, farthest(d.ttl))
	}
	return max(stepUp(far), once)
}

// Logged is the distance in the last log line, with its time.
type Logged struct {
	RoundTrip time.Duration
	At        time.Time
}

// Outdated reports whether the distance should be logged again: it has doubled or halved, and the last line is
// at least a minute old. Smaller steps up and down are load.
func (l Logged) Outdated(now time.Time, roundTrip time.Duration) bool {
	former, present := max(l.RoundTrip, near), max(roundTrip, near)
	return (present >= 2*former || former >= 2*present) && now.Sub(l.At) >= logEvery
}

// farthest returns the greatest step at which a member is not left to its lease. The resulting grace period is
// longer than any request that a session's round waits for, a fifth of the TTL.
func farthest(ttl time.Duration) time.Duration { return stepDown(ttl / (confirmable * slowdown)) }

// stepUp returns the smallest step that is not less than the round trip. A step is near times 5/4, 6/4, 7/4 or
// 8/4 of a power of two. For a round trip up to near, stepUp returns 0.
func stepUp(roundTrip time.Duration) time.Duration {
	if roundTrip <= near {
		return 0
	}
	octave := near << (bits.Len64(uint64((roundTrip-1)/near)) - 1)
	quarter := octave / 4
	return octave + (roundTrip-octave+quarter-1)/quarter*quarter
}

// stepDown returns the greatest step that is not greater than the round trip, 0 if there is none.
func stepDown(roundTrip time.Duration) time.Duration {
	if roundTrip < near*5/4 {
		return 0
	}
	octave := near << (bits.Len64(uint64(roundTrip/near)) - 1)
	quarter := octave / 4
	return octave + (roundTrip-octave)/quarter*quarter
}
