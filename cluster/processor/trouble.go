package processor

import "slices"

// failureState records what went wrong with the next events. The zero value means nothing.
type failureState struct {
	at           Position // the event that failed last; "" if none did, or if it is unknown which
	failures     int      // in a row; attempts counts those that the event caused
	attempts     int
	poison       bool  // further attempts are useless
	err          error // the error of the last failure
	extraAttempt bool  // the event gets one more attempt, whatever their number
	limit        int   // limits the events of the next batch; 0: no limit
}

// step is the decision about the events that were read.
type step struct {
	take int  // the number of events to handle
	park bool // park the only event instead of handling it
	wait int  // first pause as after this many failures
}

// next decides what to do with the events at these positions, of which there must be at least one. An event
// that failed is handled alone, after those before it.
func (t failureState) next(events []Position, maxAttempts int) step {
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
	case !t.extraAttempt && (t.poison || maxAttempts > 0 && t.attempts >= maxAttempts):
		return step{take: 1, park: true}
	}
	return step{take: 1, wait: t.failures}
}

// verdict classifies a failed attempt by its cause.
type verdict int

const (
	itsFault verdict = iota
	notItsFault
	hopeless
)

// failed returns the trouble after a failure of the event at a position.
func (t failureState) failed(at Position, err error, v verdict) failureState {
	if t.at != at {
		t = failureState{at: at, limit: t.limit}
	}
	t.err, t.extraAttempt = err, false
	t.failures++
	if v != notItsFault {
		t.attempts++
	}
	t.poison = t.poison || v == hopeless
	return t
}

// spared returns the trouble after a failure that no event caused. That may also be why the event failed, so
// the event is not parked without a further attempt.
func (t failureState) spared() failureState {
	t.extraAttempt = t.at != ""
	return t
}

// refused returns the trouble after events at these positions failed together, when it is unknown which of them
// is the cause. The batches are halved until a single event is left.
func (t failureState) refused(events []Position, err error) failureState {
	if len(events) == 1 {
		return t.failed(events[0], err, itsFault)
	}
	t.err = err
	t.limit = len(events) / 2
	t.failures++
	return t
}

// passed returns the trouble after the events at these positions, at least one, are done.
func (t failureState) passed(events []Position, batchSize int) failureState {
	limit := 2 * t.limit
	if limit >= batchSize {
		limit = 0
	}
	if t.at != "" && !slices.Contains(events, t.at) {
		t.limit = limit
		return t
	}
	return failureState{limit: limit}
}
