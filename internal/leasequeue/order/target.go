package order

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/election"
)

// ErrPassed: a request is void, because another one is first than when it was made. The other
// reasons are errors of package election.
var ErrPassed = errors.New("another one leads than when it was asked for")

// Request is somebody's request about who is first in a queue. It is void when who was first then is
// not any more, or who was to be first is gone.
type Request struct {
	Token  int64  `json:"token"`            // CreateRevision of who is first
	Key    string `json:"key,omitempty"`    // of who is to be; empty: the next one
	Create int64  `json:"create,omitempty"` // CreateRevision of Key
}

// Value is the request as it is written down.
func (w Request) Value() string {
	value, _ := json.Marshal(w) // numbers and a string
	return string(value)
}

// ParseRequest is the inverse of Value. What others have written wrong is void.
func ParseRequest(value string) Request {
	var w Request
	if json.Unmarshal([]byte(value), &w) != nil {
		return Request{}
	}
	return w
}

// Check is why the request is void by what is known; nil if it stands.
func (q Queue) Check(w Request) error {
	if len(q.entries) == 0 || q.entries[0].Create != w.Token {
		return ErrPassed
	}
	target := 1 // the next one
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

// Target is the entry that those before it let pass: they go to the tail, and the first one
// last, when it is next.
type Target struct {
	At        int // its place; 0: there is none
	Create    int64
	Requested bool // somebody asked for it
	First     bool // the first one lets it pass too, not only those who wait
	Now       bool // somebody asked the first one to give way to the next one
}

// Target is the one that the first request which stands is about; else the first of the highest
// priority of those who wait. To that one the first gives way if it has a lower priority.
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

// Yielding is since when each one has stood that those before it may let pass, as far as this
// process has seen. The zero value has seen none.
type Yielding struct {
	since map[int64]time.Time // by CreateRevision; never changed
}

// see adds who is new, and drops who is gone.
func (y Yielding) see(q Queue, now time.Time) Yielding {
	var seen map[int64]time.Time // in most queues nobody is preferred
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

// Look reports whether the entry with that key is to go to the tail, or if it is the first, to
// give way. A target that nobody asked for must have stood for as long as after, so that one
// which comes and goes moves nobody, and keeps nobody else from being let pass either; again is
// when to look then, 0 for when anything changes.
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
