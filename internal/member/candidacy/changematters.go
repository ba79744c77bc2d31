package candidacy

import (
	"sync/atomic"

	"github.com/goverse/goverse/internal/state"
)

// OwnCandidate returns the own candidate's key in the snapshot that was just looked at, or nil if this member does
// not stand with one.
func (c Candidacy) OwnCandidate(s *state.Snapshot) *state.Candidate {
	own, _ := s.CandidateOn(c.lease)
	if own == nil || own.CreateRevision != c.candidateRevision {
		return nil
	}
	return own
}

// ChangeMatters reports whether a change of the snapshot can matter to a member. own is the result of OwnCandidate
// after its last decision, and place its place in the queue. It is called for every change of the cluster, on every
// node.
func ChangeMatters(own *state.Candidate, place *state.QueuePlace, before, now *state.Snapshot) bool {
	switch {
	case own == nil || place.Find(now, own.CreateRevision) != own:
		return true
	case now.Request != nil || now.Acting != nil || before.Request != now.Request || before.Acting != now.Acting:
		return true
	}
	return now.QueueHead() == own && before.QueueHead() != own
}

// KeyTracker waits until one key of the queue is gone. It is safe for concurrent use. The zero value is ready to
// use.
type KeyTracker struct {
	revision atomic.Int64 // the key's CreateRevision; 0 until it is found
	place    state.QueuePlace
}

// KeyGone reports whether the key that stood at revision from is gone: it is absent, or was created after from.
func (f *KeyTracker) KeyGone(s *state.Snapshot, key string, from int64) bool {
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
