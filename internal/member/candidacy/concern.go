package candidacy

import (
	"sync/atomic"

	"github.com/goverse/goverse/internal/state"
)

// Settled is the own candidate's key in the snapshot that was just looked at, nil if
// there is none that this member stands with.
func (c Candidacy) Settled(s *state.Snapshot) *state.Candidate {
	own, _ := s.Candidate(c.lease)
	if own == nil || own.CreateRevision != c.queued {
		return nil
	}
	return own
}

// Concerns reports whether a change of the snapshot can matter to a member whose last
// look settled on own, which was found at place. It is asked at every change of the
// cluster on every node.
func Concerns(own *state.Candidate, place *state.Place, before, now *state.Snapshot) bool {
	switch {
	case own == nil || place.Find(now, own.CreateRevision) != own:
		return true
	case now.Request != nil || now.Acting != nil || before.Request != now.Request || before.Acting != now.Acting:
		return true
	}
	return now.Head() == own && before.Head() != own
}

// Follower waits for one key of the queue to go. It is safe for concurrent use; the
// zero value is ready.
type Follower struct {
	revision atomic.Int64 // the key's CreateRevision; 0 before it was found
	place    state.Place
}

// Gone reports whether the key that stood at revision from stands no longer: it is
// absent, or was created after it.
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
