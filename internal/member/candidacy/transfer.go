package candidacy

import (
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// mustGiveWay reports whether the present request asks the candidate at place to give way. On resign that is the
// leader. On transfer it is every candidate ahead of the target, the leader last.
func mustGiveWay(s *state.Snapshot, place int) bool {
	r := s.Request
	if r == nil || len(s.Queue) == 0 || s.Queue[0].CreateRevision != r.Token {
		return false
	}
	switch r.Kind {
	case state.RequestResign:
		return place == 0
	case state.RequestTransfer:
		target, err := TransferTarget(s, r.Target, r.Incarnation)
		switch {
		case err != nil || target == 0:
			return false
		case place == 0:
			return target == 1
		}
		return place < target
	}
	return false
}

// TransferTarget returns the place in the queue of the member that is to lead, or the reason why it cannot.
// Incarnation 0 accepts any.
func TransferTarget(s *state.Snapshot, address string, incarnation int64) (int, error) {
	m := s.Member(address)
	if m == nil || (incarnation != 0 && m.Incarnation != incarnation) {
		return 0, lifecycle.ErrNotMember
	}
	target := -1
	for i, c := range s.Queue {
		switch owner := s.MemberOf(c); {
		case owner == m:
			target = i
		case owner == nil && target < 0:
			return 0, lifecycle.ErrOutsider
		}
	}
	if target < 0 {
		return 0, lifecycle.ErrNotCandidate
	}
	return target, nil
}
