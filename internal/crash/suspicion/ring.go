package suspicion

import (
	"slices"

	"github.com/goverse/goverse/internal/state"
)

// maxTargetFactor times k limits the watched members, however few of them count.
const maxTargetFactor = 8

// WatchTargets returns the members that this instance watches: those that follow it in the order of addresses, until
// k of them count (see Case.CountsAsWatched). If many members died at once, the members behind them are thus watched
// without waiting for the removals. While the instance is not registered, WatchTargets returns none: a predecessor
// may be registered, and only a registered member may accuse.
func WatchTargets(s *state.Snapshot, me Self, k int, counts func(*state.Member) bool) []*state.Member {
	members := s.MembersWithServer()
	own := slices.Index(members, me.registeredMember(s))
	if own < 0 {
		return nil
	}
	var out []*state.Member
	for i, most := 1, maxTargetFactor*k; i < len(members) && k > 0 && len(out) < most; i++ {
		m := members[(own+i)%len(members)]
		out = append(out, m)
		if counts(m) {
			k--
		}
	}
	return out
}

// WatcherKey reports whether the process with the given instance id is a member that may watch the one at
// address. It also returns the key by which the process proves its identity. The record of an older version has
// no key. Any process can claim to be such a member, so it counts only if the ring could make it watch address
// at all.
func WatcherKey(s *state.Snapshot, address, instance string, k int) (key []byte, member bool) {
	members := s.MembersWithServer()
	i := slices.IndexFunc(members, func(m *state.Member) bool { return m.InstanceID == instance && instance != "" })
	if i < 0 || members[i].Address == address {
		return nil, false
	}
	if key := members[i].WatchKey; len(key) > 0 {
		return key, true
	}
	own := slices.IndexFunc(members, func(m *state.Member) bool { return m.Address == address })
	n := len(members)
	return nil, own < 0 || (own-i+n)%n <= maxTargetFactor*k
}

// MemberWithInstance returns the registered member of the process with that instance id, or nil.
func MemberWithInstance(s *state.Snapshot, instance string) *state.Member {
	if i := slices.IndexFunc(s.Members, func(m *state.Member) bool { return m.InstanceID == instance }); instance != "" &&
		i >= 0 && !s.Lingers(s.Members[i]) {
		return s.Members[i]
	}
	return nil
}

// IsMember reports whether a member of that incarnation is registered.
func IsMember(s *state.Snapshot, incarnation int64) bool {
	return slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		return m.Incarnation == incarnation && !s.Lingers(m)
	})
}
