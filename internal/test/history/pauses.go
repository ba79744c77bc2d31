package history

import (
	"slices"
	"time"
)

// Pauses summarizes the times during which no node claimed a subject.
type Pauses struct {
	Count           int
	Median, Longest time.Duration // 0 without any
}

// Pauses returns the pauses between the terms of a subject, in time order. Each is the longest that it can have
// been: from the certain end of the last claim to the certain start of the next. It is 0 where terms overlap.
func (v Verdict) Pauses(s Subject) []time.Duration { return slices.Clone(v.pauses[s]) }

// pausesBetween returns the pauses between terms, which are in the order of Begun.
func pausesBetween(terms []Term) []time.Duration {
	var out []time.Duration
	var until Instant
	for i, t := range terms {
		if i > 0 {
			out = append(out, max(0, t.Begun().Sub(until)))
			until = max(until, t.Ended())
		} else {
			until = t.Ended()
		}
	}
	return out
}

func summarizePauses(lengths []time.Duration) Pauses {
	if len(lengths) == 0 {
		return Pauses{}
	}
	slices.Sort(lengths)
	return Pauses{Count: len(lengths), Median: lengths[len(lengths)/2], Longest: lengths[len(lengths)-1]}
}
