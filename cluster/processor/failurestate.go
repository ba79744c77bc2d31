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

// batchStep is the decision about the events that were read.
type batchStep struct {
	count    int  // the number of events to handle
	park     bool // park the only event instead of handling it
	failures int  // first pause as after this many failures
}

// nextStep decides what to do with the events at these positions, of which there must be at least one. An event
// that failed is handled alone, after those before it.
func (t failureState) nextStep(events []Position, maxAttempts int) batchStep {
	n := len(events)
	if t.limit > 0 {
		n = min(n, t.limit)
	}
	switch i := slices.Index(events[:n], t.at); {
	case t.at == "":
		return batchStep{count: n, failures: t.failures}
	case i < 0:
		return batchStep{count: n}
	case i > 0:
		return batchStep{count: i}
	case !t.extraAttempt && (t.poison || maxAttempts > 0 && t.attempts >= maxAttempts):
		return batchStep{count: 1, park: true}
	}
	return batchStep{count: 1, failures: t.failures}
}

// failureCause classifies a failed attempt by its cause.
type failureCause int

const (
	causeEvent failureCause = iota
	causeOther
	causePoison
)

// withFailure returns the state after a failure of the event at a position.
func (t failureState) withFailure(at Position, err error, v failureCause) failureState {
	if t.at != at {
		t = failureState{at: at, limit: t.limit}
	}
	t.err, t.extraAttempt = err, false
	t.failures++
	if v != causeOther {
		t.attempts++
	}
	t.poison = t.poison || v == causePoison
	return t
}

// withOutage returns the state after a failure that no event caused. That may also be why the event failed, so
// the event is not parked without a further attempt.
func (t failureState) withOutage() failureState {
	t.extraAttempt = t.at != ""
	return t
}

// withRefusal returns the state after events at these positions failed together, when it is unknown which of them
// is the cause. The batches are halved until a single event is left.
func (t failureState) withRefusal(events []Position, err error) failureState {
	if len(events) == 1 {
		return t.withFailure(events[0], err, causeEvent)
	}
	t.err = err
	t.limit = len(events) / 2
	t.failures++
	return t
}

// withSuccess returns the state after the events at these positions, at least one, are done.
func (t failureState) withSuccess(events []Position, batchSize int) failureState {
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
