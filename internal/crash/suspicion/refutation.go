package suspicion

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
)

const (
	// RefuteAgain is the delay after which a refutation is sent again while etcd has not answered the last one.
	// That one may be lost, and each accusation leaves only a grace period. So the delay neither grows nor has
	// jitter.
	RefuteAgain = 20 * time.Millisecond
	// RefutationsAtOnce limits the repeated refutations in progress.
	RefutationsAtOnce = 8
)

// WithdrawRetry is the policy for the delay after a failed withdrawal. No other action waits for it.
var WithdrawRetry = backoff.Policy{First: time.Second, Last: time.Second}

// Self identifies this instance.
type Self struct {
	Address, InstanceID string
	Lease               int64 // lease of its session; 0 if it has none
}

// registeredMember returns this instance as it is registered, nil if it is not. It is recognized by its instance id,
// because the answer to its registration may still be on its way, or by the lease of its session, because an
// out-of-band change may have altered the record.
func (me Self) registeredMember(s *state.Snapshot) *state.Member {
	own := s.Member(me.Address)
	if own == nil || own.InstanceID != me.InstanceID && (me.Lease == 0 || own.KeyLease != me.Lease) {
		return nil
	}
	return own
}

// AccusationsAgainst returns the accusations that this living instance has to refute.
func AccusationsAgainst(s *state.Snapshot, me Self) []*state.Accusation {
	own := me.registeredMember(s)
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

// VoidAccusations returns the accuser's accusations of incarnations that are no longer registered, or that are left to
// their lease by now. Such an accusation was written by a delayed request, is left over because another node removed
// the member first, or was written by a record that has changed.
func VoidAccusations(s *state.Snapshot, accuser string) []*state.Accusation {
	var out []*state.Accusation
	for _, a := range s.Accusations {
		if a.Accuser != accuser {
			continue
		}
		if m := s.Member(a.Address); m == nil || m.Incarnation != a.Incarnation || LeftToLease(m) {
			out = append(out, a)
		}
	}
	return out
}
