package suspicion

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/state"
)

// tripsPerRead is the number of round trips to etcd for which a read must count, at least.
const tripsPerRead = 5

// MayArm reports whether a member with that silence time-out and TTL arms its watchers. Otherwise its lease decides
// alone: it ends as soon, or the member is so far from etcd that its reads would prove nothing by the time they are
// answered.
func MayArm(timeout, ttl time.Duration, own *state.Member) bool {
	return timeout > 0 && timeout < ttl && !LeftToLease(own) && !TooFarForSilence(own.RoundTrip(), timeout)
}

// TooFarForSilence reports whether a member at that round trip from etcd arms no watcher with that silence time-out.
func TooFarForSilence(roundTrip, timeout time.Duration) bool {
	return timeout > 0 && tripsPerRead*roundTrip > deadline.ProofTimesOf(timeout).Read
}

// LeastSilenceTimeoutAt returns the smallest silence time-out, in tenths of a second, with which a member at that round
// trip arms watchers.
func LeastSilenceTimeoutAt(roundTrip time.Duration) time.Duration {
	const tenth = time.Second / 10
	return (deadline.LeastTimeout(tripsPerRead*roundTrip) + tenth - 1).Truncate(tenth)
}

// HoldOff reports whether no member is to be removed for its silence, because that many accusations of silence stand,
// by so many watchers of each member. A fault of the network is more likely than the end of so many members.
func HoldOff(accusations, watchers, members int) bool {
	return accusations > watchers*max(maxMarkedSilent, members/20)
}

// maxMarkedSilent is the number of members marked silent, or a twentieth of all if that is more, above which no
// further marks are written. Every node reads every mark, and once most of a cluster stands still further marks
// add nothing.
const maxMarkedSilent = 3

// SilentMember is a watched member that has been silent for a time.
type SilentMember struct {
	Address     string
	Incarnation int64
	Silent      time.Duration
}

// MarkChanges lists the changes to the keys by which a watcher reports the members that do not answer it.
type MarkChanges struct {
	Write []SilentMember
	Erase []*state.Silence
}

// IsEmpty reports whether there are no changes.
func (m MarkChanges) IsEmpty() bool { return len(m.Write) == 0 && len(m.Erase) == 0 }

// MarkChangesOf returns the changes that the watcher with the given instance id must make, given the members that do
// not answer it. A mark is rewritten when the silence has lasted half as long again as the mark says, because
// nodes that read it later have no other clock. It is erased when the member answers, is gone, or is no longer
// watched.
func MarkChangesOf(s *state.Snapshot, instance string, silent []SilentMember) MarkChanges {
	var out MarkChanges
	if len(silent) == 0 && len(s.Silences) == 0 {
		return out
	}
	stands := map[string]*state.Silence{}
	for _, x := range s.Silences {
		if x.Watcher != instance {
			continue
		}
		stands[x.Address] = x
		if !slices.ContainsFunc(silent, func(u SilentMember) bool {
			return u.Address == x.Address && u.Incarnation == x.Incarnation
		}) {
			out.Erase = append(out.Erase, x)
		}
	}
	if s.CountSilentMembers() > max(maxMarkedSilent, len(s.Members)/20) {
		return out
	}
	for _, u := range silent {
		m := s.Member(u.Address)
		if m == nil || m.Incarnation != u.Incarnation || s.Lingers(m) {
			continue
		}
		x := stands[u.Address]
		if x == nil || x.Incarnation != u.Incarnation || 2*u.Silent >= 3*max(x.SilentFor(), time.Second) {
			out.Write = append(out.Write, u)
		}
	}
	return out
}
