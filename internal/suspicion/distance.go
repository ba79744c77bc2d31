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
	// samples is of how many round trips the second greatest counts: one that was slow is
	// none, but two of six are a distance, for etcd's client asks its endpoints in turn, and
	// one of three may be far.
	samples = 6
	// shrinkEvery is how often at most a smaller distance is recorded.
	shrinkEvery = time.Minute
)

// Distance is how far a member is from etcd: the round trip of one request, as measured, and
// what of it stands in the member's record. It is a value; begin with At.
//
// What is recorded is the second greatest of the last six, rounded up to one of four steps in
// each doubling; but no more than allows the member to be removed on evidence, unless most of
// the six took longer than that: an etcd that stands still for a moment makes nobody far. It grows
// as soon as that does, and shrinks when that is no more than two thirds of it, once a minute
// at most, and at once for a member that was left to its lease and need not be. So a member at a
// constant distance never writes its record anew; one whose distance changes does at most once a
// minute to say less, and in between once for each step up.
type Distance struct {
	ttl      time.Duration
	last     [samples]time.Duration
	n        int // that were measured
	recorded time.Duration
	shrunk   time.Time // when it did last
}

// At is the distance of a member that begins, with sessions of that TTL: by some round trips. One
// is enough, six are better.
func At(ttl time.Duration, roundTrips ...time.Duration) Distance {
	d := Distance{ttl: ttl}
	for _, r := range roundTrips {
		d = d.add(r)
	}
	d.recorded = d.said()
	return d
}

// Measured is the distance after one more request took that long, at now.
func (d Distance) Measured(now time.Time, roundTrip time.Duration) Distance {
	d = d.add(roundTrip)
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

func (d Distance) add(roundTrip time.Duration) Distance {
	d.last[d.n%samples] = roundTrip
	d.n++
	return d
}

// said is what the last ones say.
func (d Distance) said() time.Duration {
	known := slices.Sorted(slices.Values(d.last[:min(d.n, samples)]))
	n := len(known)
	if n == 0 {
		return 0
	}
	second := n - 1
	if n > 2 {
		second = n - 2
	}
	limit := farthest(d.ttl)
	if half := (n - 1) / 2; known[half] <= limit {
		return min(stepUp(known[second]), limit)
	}
	return stepUp(known[second])
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
