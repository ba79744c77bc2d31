package suspicion

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
)

const (
	// RefuteAgain is when a refutation is sent again, beside the one that etcd has not answered yet:
	// that one may be lost, and each accusation has but a grace period. So it neither grows nor has jitter.
	RefuteAgain = 20 * time.Millisecond
	// RefutationsAtOnce bounds how many are under way that were sent again.
	RefutationsAtOnce = 8
)

// WithdrawRetry is how long to wait after a withdrawal that failed. Nobody waits for it.
var WithdrawRetry = backoff.Policy{First: time.Second, Last: time.Second}

// Self is this very instance.
type Self struct {
	Address, InstanceID string
	Lease               int64 // of its session; 0 if it has none
}

// member is this instance as it is registered, nil while it is not. The snapshot tells it
// by its instance id, for it may know of a registration whose answer is still on its way;
// or by the lease of its session, for somebody may have altered the record.
func (me Self) member(s *state.Snapshot) *state.Member {
	own := s.Member(me.Address)
	if own == nil || own.InstanceID != me.InstanceID && (me.Lease == 0 || own.KeyLease != me.Lease) {
		return nil
	}
	return own
}

// Against are the accusations that this instance has to deny: it lives.
func Against(s *state.Snapshot, me Self) []*state.Accusation {
	own := me.member(s)
	if own == nil {
		return nil
	}
	var out []*state.Accusation
	for _, a := range s.Accusations {
		if a.Address == me.Address && a.Incarnation == own.Incarnation {
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
