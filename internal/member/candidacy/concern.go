package candidacy

import (
	"sync/atomic"

	"github.com/goverse/goverse/internal/state"
)

// Settled returns the own candidate's key in the snapshot that was just looked at, or nil if this member does
// not stand with one.
func (c Candidacy) Settled(s *state.Snapshot) *state.Candidate {
	own, _ := s.Candidate(c.lease)
	if own == nil || own.CreateRevision != c.queued {
		return nil
	}
	return own
}

// Concerns reports whether a change of the snapshot can matter to a member. own is the result of Settled after
// its last look, and place its place in the queue. It is called for every change of the cluster, on every node.
func Concerns(own *state.Candidate, place *state.Place, before, now *state.Snapshot) bool {
	switch {
	case own == nil || place.Find(now, own.CreateRevision) != own:
		return true
	case now.Request != nil || now.Acting != nil || before.Request != now.Request || before.Acting != now.Acting:
		return true
	}
	return now.Head() == own && before.Head() != own
}

// Follower waits until one key of the queue is gone. It is safe for concurrent use. The zero value is ready to
// use.
type Follower struct {
	revision atomic.Int64 // the key's CreateRevision; 0 until it is found
	place    state.Place
}

// Gone reports whether the key that stood at revision from is gone: it is absent, or was created after from.
func (f *Follower) Gone(s *state.Snapshot, key string, from int64) bool {
	if s.Revision < from {
		return false
	}
	if r := f.revision.Load(); r != 0 {
		if c := f.place.Find(s, r); c != nil && c.Key == key {
			return r > from
		}
	}
	for _, c := range s.Queue {
		if c.Key == key {
			f.revision.Store(c.CreateRevision)
			return c.CreateRevision > from
		}
	}
	return true
}
