package order

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/election"
)

// ErrPassed is returned when a request is void because the first entry is another one than when the request was
// made. Package election has the errors for the other reasons.
var ErrPassed = errors.New("another one leads than when it was asked for")

// Request asks the first entry of a queue to give way. It is void if that entry is no longer first or the
// target is gone.
type Request struct {
	Token  int64  `json:"token"`            // CreateRevision of the first entry
	Key    string `json:"key,omitempty"`    // the target's key; empty means the next entry
	Create int64  `json:"create,omitempty"` // CreateRevision of Key
}

// Value returns the request as it is stored.
func (w Request) Value() string {
	value, _ := json.Marshal(w) // cannot fail for numbers and a string
	return string(value)
}

// ParseRequest parses the result of Value. A malformed value gives a request that is void.
func ParseRequest(value string) Request {
	var w Request
	if json.Unmarshal([]byte(value), &w) != nil {
		return Request{}
	}
	return w
}

// Check returns the reason why the request is void, or nil if it is valid.
func (q Queue) Check(w Request) error {
	if len(q.entries) == 0 || q.entries[0].Create != w.Token {
		return ErrPassed
	}
	target := 1 // the next entry
	if w.Key != "" {
		target = q.index(w.Key)
		switch {
		case target <= 0 || q.entries[target].Create != w.Create:
			return election.ErrNotCandidate
		case slices.ContainsFunc(q.entries, func(e Entry) bool { return e.Priority > q.entries[target].Priority }):
			return election.ErrPreferred
		}
	}
	if slices.ContainsFunc(q.entries[:min(target, len(q.entries))], func(e Entry) bool { return e.Foreign }) {
		return election.ErrOutsider
	}
	return nil
}

// Target describes the entry that the entries ahead of it let pass. They move to the tail, and the first one
// moves last, when the target is next.
type Target struct {
	At        int // index in the queue; 0 means none
	Create    int64
	Requested bool // by a request
	First     bool // the first entry gives way too, not only the waiting ones
	Now       bool // a request asks the first entry to give way to the next one
}

// Target returns the target of the first valid request that names one. Without such a request it is the first
// of the highest priority among the waiting entries; the first entry gives way to it only if its own priority
// is lower.
func (q Queue) Target(requests []Request) Target {
	var t Target
	for _, w := range requests {
		switch {
		case q.Check(w) != nil:
		case w.Key == "":
			t.Now = true
		default:
			return Target{At: q.index(w.Key), Create: w.Create, Requested: true, First: true}
		}
	}
	for i, e := range q.entries {
		if i == 1 || i > 1 && e.Priority > q.entries[t.At].Priority {
			t.At = i
		}
	}
	if t.At > 0 {
		t.Create, t.First = q.entries[t.At].Create, q.entries[t.At].Priority > q.entries[0].Priority
	}
	return t
}

// Yielding holds the time since which each preferred entry has stood, as far as this process has seen. The zero
// value has seen none.
type Yielding struct {
	since map[int64]time.Time // by CreateRevision; immutable
}

// see adds new preferred entries and drops those that are gone.
func (y Yielding) see(q Queue, now time.Time) Yielding {
	var seen map[int64]time.Time // most queues have no preferred entry
	lowest := math.MaxInt
	for _, e := range q.entries {
		if lowest = min(lowest, e.Priority); e.Priority > lowest {
			since, known := y.since[e.Create]
			if !known {
				since = now
			}
			if seen == nil {
				seen = map[int64]time.Time{}
			}
			seen[e.Create] = since
		}
	}
	return Yielding{seen}
}

// Look reports whether the entry with that key must give way: move to the tail, or, if it is first, hand over.
// A target that was not requested must have stood for the duration after, so that one that comes and goes moves
// no entry. If it has not stood that long, again is the time left. Otherwise again is 0: look at the next
// change.
func (y Yielding) Look(q Queue, key string, create int64, requests []Request, after time.Duration,
	now time.Time) (_ Yielding, giveWay bool, again time.Duration) {
	y = y.see(q, now)
	t := q.Target(requests)
	own := q.index(key)
	switch {
	case own < 0 || q.entries[own].Create != create:
		return y, false, 0
	case own == 0 && t.Now:
		return y, true, 0
	case own >= t.At, own == 0 && (!t.First || t.At > 1):
		return y, false, 0
	case t.Requested:
		return y, true, 0
	}
	left := after - now.Sub(y.since[t.Create])
	return y, left <= 0, max(left, 0)
}
