package processor

import "slices"

// trouble is what went wrong with the events that come next. The zero value is: nothing.
type trouble struct {
	at       Position // the event that failed last; "": none, or it is not known which
	failures int      // how often in a row, and how often of those it was its own fault
	attempts int
	poison   bool  // it will not get better
	err      error // what it failed with
	spare    bool  // it has one more attempt, whatever they were
	limit    int   // how many events the next batch may have; 0: as many as there are
}

// step is what to do with the events that were read.
type step struct {
	take int  // handle so many
	park bool // no: give the only one up
	wait int  // but first wait, as after so many failures
}

// next decides what to do with events at these positions, of which there is at least one: an
// event that failed is handled alone, after what comes before it.
func (t trouble) next(events []Position, maxAttempts int) step {
	n := len(events)
	if t.limit > 0 {
		n = min(n, t.limit)
	}
	switch i := slices.Index(events[:n], t.at); {
	case t.at == "":
		return step{take: n, wait: t.failures}
	case i < 0:
		return step{take: n}
	case i > 0:
		return step{take: i}
	case !t.spare && (t.poison || maxAttempts > 0 && t.attempts >= maxAttempts):
		return step{take: 1, park: true}
	}
	return step{take: 1, wait: t.failures}
}

// verdict is what a failed attempt says about the event.
type verdict int

const (
	itsFault verdict = iota
	notItsFault
	hopeless
)

// failed: the event at that position has failed.
func (t trouble) failed(at Position, err error, v verdict) trouble {
	if t.at != at {
		t = trouble{at: at, limit: t.limit}
	}
	t.err, t.spare = err, false
	t.failures++
	if v != notItsFault {
		t.attempts++
	}
	t.poison = t.poison || v == hopeless
	return t
}

// spared: something else has failed meanwhile, and perhaps the event for that alone. It is not
// given up without a further attempt.
func (t trouble) spared() trouble {
	t.spare = t.at != ""
	return t
}

// refused: events at these positions have failed together, and it is not known which of them.
// Fewer are tried at a time, until there is one left.
func (t trouble) refused(events []Position, err error) trouble {
	if len(events) == 1 {
		return t.failed(events[0], err, itsFault)
	}
	t.err = err
	t.limit = len(events) / 2
	t.failures++
	return t
}

// passed: events at these positions, at least one, are done with.
func (t trouble) passed(events []Position, batchSize int) trouble {
	limit := 2 * t.limit
	if limit >= batchSize {
		limit = 0
	}
	if t.at != "" && !slices.Contains(events, t.at) {
		t.limit = limit
		return t
	}
	return trouble{limit: limit}
}
