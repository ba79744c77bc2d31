package suspicion

import (
	"math/bits"
	"slices"
	"time"
)

const (
	// near is the round trip up to which a member says nothing of its distance: five of these
	// fit into the default grace period.
	near = 20 * time.Millisecond
	// samples is of how many round trips to one member of etcd the least counts: load makes a request slower than
	// the way is, and never faster.
	samples = 3
	// members is of how many members of etcd the round trips are kept, and forgotten after how many that others
	// answered one is that answers none: it is gone, or is not asked any more.
	members, forgotten = 9, 60
	// shrinkEvery is how often at most a smaller distance is recorded.
	shrinkEvery = time.Minute
	// logEvery is the least time between two lines of the log about a distance.
	logEvery = time.Minute
)

// Trip is how long a request took that a member of etcd answered.
type Trip struct {
	Member uint64 // as its answer's header says it
	Took   time.Duration
}

// Trips are those of requests that one member of etcd answered.
func Trips(member uint64, took ...time.Duration) (trips []Trip) {
	for _, t := range took {
		trips = append(trips, Trip{member, t})
	}
	return trips
}

// Distance is how far a member is from etcd: the round trip of one request, as measured, and
// what of it stands in the member's record. It is a value; begin with At.
//
// It is the least of the last three round trips to one member of etcd: the rest is load, of etcd or of this machine.
// And it is that to the member of etcd for which it is the greatest: etcd's client asks its endpoints in turn, and the
// watch may be at the far one of three.
//
// What is recorded is that, rounded up to one of four steps in each doubling. It grows
// as soon as that does, and shrinks when that is no more than two thirds of it, once a minute
// at most, and at once for a member that was left to its lease and need not be. So a member at a
// constant distance never writes its record anew; one whose distance changes does at most once a
// minute to say less, and in between once for each step up.
type Distance struct {
	ttl      time.Duration
	ways     [members]way
	n        int // round trips so far
	recorded time.Duration
	shrunk   time.Time // when it did last
}

// way is that to one member of etcd.
type way struct {
	member uint64
	last   [samples]time.Duration
	n      int // that were measured; 0: there is no such member
	heard  int // which round trip of all was the last one
}

// least is the least of the last ones.
func (w way) least() time.Duration { return slices.Min(w.last[:min(w.n, samples)]) }

// At is the distance of a member that begins, with sessions of that TTL: by some round trips. One
// is enough, two to each member of etcd are better.
func At(ttl time.Duration, trips ...Trip) Distance {
	d := Distance{ttl: ttl}
	for _, t := range trips {
		d = d.add(t)
	}
	d.recorded = d.said()
	return d
}

// Measured is the distance after one more request took that long, at now.
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

// RoundTrip is what the record is to say: 0 for a member that is near.
func (d Distance) RoundTrip() time.Duration { return d.recorded }

// add counts a round trip, in the place of the member of etcd that answered longest ago where there is none left.
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

// said is what the last ones say. A member of etcd that has answered once, beside others that have more often, makes
// nobody so far that it is left to its lease.
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

// Logged is the distance of a member that its log shows.
type Logged struct {
	RoundTrip time.Duration
	At        time.Time
}

// Outdated reports whether the log should have another line, now that the distance is this: it is twice or half as far,
// and the last line is a minute old. Steps up and down beside that are load.
func (l Logged) Outdated(now time.Time, roundTrip time.Duration) bool {
	former, present := max(l.RoundTrip, near), max(roundTrip, near)
	return (present >= 2*former || former >= 2*present) && now.Sub(l.At) >= logEvery
}

// farthest is the greatest step with which a member is not left to its lease. The grace period
// that comes of it is longer than any request that a session's round waits for, a fifth of the TTL.
func farthest(ttl time.Duration) time.Duration { return stepDown(ttl / (confirmable * slowdown)) }

// stepUp is the smallest step that is no less than the round trip: 0 if that is near, else
// near times 5/4, 6/4, 7/4 or 8/4 of a power of two.
func stepUp(roundTrip time.Duration) time.Duration {
	if roundTrip <= near {
		return 0
	}
	octave := near << (bits.Len64(uint64((roundTrip-1)/near)) - 1)
	quarter := octave / 4
	return octave + (roundTrip-octave+quarter-1)/quarter*quarter
}

// stepDown is the greatest step that is no more than the round trip: 0 if there is none.
func stepDown(roundTrip time.Duration) time.Duration {
	if roundTrip < near*5/4 {
		return 0
	}
	octave := near << (bits.Len64(uint64(roundTrip/near)) - 1)
	quarter := octave / 4
	return octave + (roundTrip-octave)/quarter*quarter
}
