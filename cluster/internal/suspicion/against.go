package suspicion

import (
	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/internal/planted"
)

// Against are the accusations that the instance at address has to deny: it lives.
// Which incarnation is its own, the snapshot tells by its instance id, for it may know of
// a registration whose answer is still on its way; or by the lease of its session, for
// somebody may have altered the record.
func Against(s *state.Snapshot, address, instanceID string, lease int64) []*state.Accusation {
	own := s.Member(address)
	if own == nil || planted.Is(planted.RefuteNothing) {
		return nil
	}
	if own.InstanceID != instanceID && (lease == 0 || own.KeyLease != lease) {
		return nil
	}
	var out []*state.Accusation
	for _, a := range s.Accusations {
		if a.Address == address && a.Incarnation == own.Incarnation {
			out = append(out, a)
		}
	}
	return out
}

// Void are the accusations by accuser of incarnations that are registered no longer:
// written by a request that came late, or left when somebody else was faster.
func Void(s *state.Snapshot, accuser string) []*state.Accusation {
	var out []*state.Accusation
	for _, a := range s.Accusations {
		if a.Accuser != accuser {
			continue
		}
		if m := s.Member(a.Address); m == nil || m.Incarnation != a.Incarnation {
			out = append(out, a)
		}
	}
	return out
}
