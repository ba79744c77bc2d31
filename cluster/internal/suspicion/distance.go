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
	// shrinkAfter is how long all of these must have been much smaller than what is recorded
	// until that is taken back.
	shrinkAfter = time.Minute
)

// Distance is how far a member is from etcd: the round trip of one request, as measured, and
// what of it stands in the member's record. It is a value; begin with At.
//
// What is recorded is the second greatest of the last six, rounded up to one of four steps in
// each doubling. It grows as soon as that does, and shrinks when for a minute that was no
// more than two thirds of it. So a member at a constant distance never writes its
// record anew; one whose distance changes does at most once a minute to say less, and in
// between once for each step up.
type Distance struct {
	last     [samples]time.Duration
	n        int // that were measured
	recorded time.Duration
	most     time.Duration // the greatest second since then
	since    time.Time
}

// At is the distance of a member that begins: by some round trips, measured at now. One is
// enough, six are better.
func At(now time.Time, roundTrips ...time.Duration) Distance {
	d := Distance{since: now}
	for _, r := range roundTrips {
		d = d.add(r)
	}
	d.most = d.second()
	d.recorded = stepUp(d.most)
	return d
}

// Measured is the distance after one more request took that long, at now.
func (d Distance) Measured(now time.Time, roundTrip time.Duration) Distance {
	d = d.add(roundTrip)
	second := d.second()
	d.most = max(d.most, second)
	if step := stepUp(second); step > d.recorded {
		d.recorded, d.most, d.since = step, second, now
	}
	if now.Sub(d.since) >= shrinkAfter {
		if step := stepUp(d.most); 3*step <= 2*d.recorded {
			d.recorded = step
		}
		d.most, d.since = second, now
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

// second is the second greatest of the last ones, or the greatest of two.
func (d Distance) second() time.Duration {
	known := d.last[:min(d.n, samples)]
	if len(known) == 0 {
		return 0
	}
	known = slices.Sorted(slices.Values(known))
	if len(known) < 3 {
		return known[len(known)-1]
	}
	return known[len(known)-2]
}

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
