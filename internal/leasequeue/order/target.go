package order

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state/format"
)

// ErrLeaderChanged is returned when a request is void because the first entry is another one than when the request was
// made. Package leaderelection has the errors for the other reasons.
var ErrLeaderChanged = errors.New("another candidate leads than at the time of the request")

// Request asks the first entry of a queue to give way. It is void if that entry is no longer first or the
// target is gone.
type Request struct {
	Token          int64  `json:"token"`            // CreateRevision of the first entry
	TargetKey      string `json:"key,omitempty"`    // the target's key; empty means the next entry
	TargetRevision int64  `json:"create,omitempty"` // CreateRevision of TargetKey
}

// Encode returns the request as it is stored.
func (w Request) Encode() string {
	value, _ := format.Encode(w, nil) // cannot fail for numbers and a string
	return string(value)
}

// ParseRequest parses the result of Encode. A malformed value gives a request that is void.
func ParseRequest(value string) Request {
	var w Request
	if format.DecodeKnown("the request", []byte(value), &w) != nil {
		return Request{}
	}
	return w
}

// CheckRequest returns the reason why the request is void, or nil if it is valid.
func (q Queue) CheckRequest(w Request) error {
	if len(q.entries) == 0 || q.entries[0].CreateRevision != w.Token {
		return ErrLeaderChanged
	}
	target := 1 // the next entry
	if w.TargetKey != "" {
		target = q.indexOf(w.TargetKey)
		switch {
		case target <= 0 || q.entries[target].CreateRevision != w.TargetRevision:
			return lifecycle.ErrNotCandidate
		case slices.ContainsFunc(q.entries, func(e Entry) bool { return e.Priority > q.entries[target].Priority }):
			return lifecycle.ErrPreferred
		}
	}
	if slices.ContainsFunc(q.entries[:min(target, len(q.entries))], func(e Entry) bool { return e.Foreign }) {
		return lifecycle.ErrOutsider
	}
	return nil
}

// Target describes the entry that the entries ahead of it let pass. They move to the tail, and the first one
// moves last, when the target is next.
type Target struct {
	Index           int // index in the queue; 0 means none
	CreateRevision  int64
	Requested       bool // by a request
	FirstYields     bool // the first entry gives way too, not only the waiting ones
	ResignRequested bool // a request asks the first entry to give way to the next one
}

// Target returns the target of the first valid request that names one. Without such a request it is the first
// of the highest priority among the waiting entries; the first entry gives way to it only if its own priority
// is lower.
func (q Queue) Target(requests []Request) Target {
	var t Target
	for _, w := range requests {
		switch {
		case q.CheckRequest(w) != nil:
		case w.TargetKey == "":
			t.ResignRequested = true
		default:
			return Target{Index: q.indexOf(w.TargetKey), CreateRevision: w.TargetRevision, Requested: true, FirstYields: true}
		}
	}
	for i, e := range q.entries {
		if i == 1 || i > 1 && e.Priority > q.entries[t.Index].Priority {
			t.Index = i
		}
	}
	if t.Index > 0 {
		t.CreateRevision, t.FirstYields = q.entries[t.Index].CreateRevision,
			q.entries[t.Index].Priority > q.entries[0].Priority
	}
	return t
}

// PreferredSince holds the time since which each preferred entry has stood, as far as this process has seen. The zero
// value has seen none.
type PreferredSince struct {
	since map[int64]time.Time // by CreateRevision; immutable
}

// recordEntries adds new preferred entries and drops those that are gone.
func (y PreferredSince) recordEntries(q Queue, now time.Time) PreferredSince {
	var seen map[int64]time.Time // most queues have no preferred entry
	lowest := math.MaxInt
	for _, e := range q.entries {
		if lowest = min(lowest, e.Priority); e.Priority > lowest {
			since, known := y.since[e.CreateRevision]
			if !known {
				since = now
			}
			if seen == nil {
				seen = map[int64]time.Time{}
			}
			seen[e.CreateRevision] = since
		}
	}
	return PreferredSince{seen}
}

// MustGiveWay reports whether the entry with that key must give way: move to the tail, or, if it is first, hand over.
// A target that was not requested must have stood for the duration after, so that one that comes and goes moves
// no entry. If it has not stood that long, again is the time left. Otherwise again is 0: look at the next
// change.
func (y PreferredSince) MustGiveWay(q Queue, key string, create int64, requests []Request, after time.Duration,
	now time.Time) (_ PreferredSince, giveWay bool, again time.Duration) {
	y = y.recordEntries(q, now)
	t := q.Target(requests)
	own := q.indexOf(key)
	switch {
	case own < 0 || q.entries[own].CreateRevision != create:
		return y, false, 0
	case own == 0 && t.ResignRequested:
		return y, true, 0
	case own >= t.Index, own == 0 && (!t.FirstYields || t.Index > 1):
		return y, false, 0
	case t.Requested:
		return y, true, 0
	}
	left := after - now.Sub(y.since[t.CreateRevision])
	return y, left <= 0, max(left, 0)
}
