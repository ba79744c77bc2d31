package suspicion

import (
	"slices"

	"github.com/goverse/goverse/internal/state"
)

// mostTargets times k is how many are watched at most, however few of them count.
const mostTargets = 8

// Targets are the members whom this instance watches: in the order of
// addresses those that follow it, until k of them count (see Case.Counts). So where many
// died at once, those behind them are looked at without waiting for their removal. None
// while the instance is not registered: a predecessor may be, and who is not registered may not accuse.
func Targets(s *state.Snapshot, me Self, k int, counts func(*state.Member) bool) []*state.Member {
	own := slices.Index(s.Members, me.member(s))
	if own < 0 {
		return nil
	}
	var out []*state.Member
	for i, most := 1, mostTargets*k; i < len(s.Members) && k > 0 && len(out) < most; i++ {
		m := s.Members[(own+i)%len(s.Members)]
		out = append(out, m)
		if counts(m) {
			k--
		}
	}
	return out
}

// WatcherKey reports whether the process with that instance id is a member that may watch the one at address, and the
// key by which it proves that it is that process. A member whose record has no key, of an older version, counts if the
// ring could have it watch address at all: anybody can say its name.
func WatcherKey(s *state.Snapshot, address, instance string, k int) (key []byte, member bool) {
	i := slices.IndexFunc(s.Members, func(m *state.Member) bool { return m.InstanceID == instance && instance != "" })
	if i < 0 || s.Members[i].Address == address {
		return nil, false
	}
	if key := s.Members[i].WatchKey; len(key) > 0 {
		return key, true
	}
	own := slices.IndexFunc(s.Members, func(m *state.Member) bool { return m.Address == address })
	n := len(s.Members)
	return nil, own < 0 || (own-i+n)%n <= mostTargets*k
}
