package suspicion

import (
	"cmp"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// maxTargetFactor times k limits the watched members, however few of them count.
const maxTargetFactor = 8

// WatchTargets returns the members that this instance watches. Each member has k watchers: the member before it in the
// order of addresses, and the others before it in the order of [state.Member.Scatter], because neighbours by address
// may be lost together. Members that do not count (see Case.CountsAsWatched) are passed over, and watched too. If many
// members died at once, the members behind them are thus watched without waiting for the removals. While the instance
// is not registered, WatchTargets returns none: a predecessor may be registered, and only a registered member may
// accuse.
func WatchTargets(s *state.Snapshot, me Self, k int, counts func(*state.Member) bool) []*state.Member {
	members := s.MembersWithServer()
	own := slices.Index(members, me.registeredMember(s))
	if own < 0 || k <= 0 {
		return nil
	}
	r := ring{members, members[own], counts}
	out := r.byAddress(own, maxTargetFactor*k)
	return append(out, r.byScatter(k, maxTargetFactor*k-len(out))...)
}

// ring is the view of one member on the others.
type ring struct {
	members []*state.Member // by address
	me      *state.Member
	counts  func(*state.Member) bool
}

// byAddress returns the members that have me before them in the order of addresses, at most that many.
func (r ring) byAddress(own, most int) (out []*state.Member) {
	for i := 1; i < len(r.members) && len(out) < most; i++ {
		m := r.members[(own+i)%len(r.members)]
		out = append(out, m)
		if r.counts(m) {
			break
		}
	}
	return out
}

// byScatter returns the members that have me among the k-1 before them in the order of hashes, not counting the one
// before them in the order of addresses.
func (r ring) byScatter(k, most int) (out []*state.Member) {
	var passed []*state.Member // those that count
	for last := r.me; len(passed) < k && len(out) < most; {
		m := r.afterScatter(last)
		if m == r.me {
			break
		}
		last = m
		first, between := r.beforeAddress(m), len(passed)
		if slices.Contains(passed, first) {
			between--
		}
		if first != r.me && between < k-1 {
			out = append(out, m)
		}
		if r.counts(m) {
			passed = append(passed, m)
		}
	}
	return out
}

// afterScatter returns the member that follows m in the order of hashes: m if there is no other.
func (r ring) afterScatter(m *state.Member) *state.Member {
	var first, next *state.Member
	for _, o := range r.members {
		if first == nil || scattersBefore(o, first) {
			first = o
		}
		if scattersBefore(m, o) && (next == nil || scattersBefore(o, next)) {
			next = o
		}
	}
	return cmp.Or(next, first)
}

// scattersBefore reports whether a is before b in the order of hashes. Each node asks that of all members at each
// change of them, so the addresses are compared only if they have to be.
func scattersBefore(a, b *state.Member) bool {
	return a.Scatter < b.Scatter || a.Scatter == b.Scatter && a.Address < b.Address
}

// beforeAddress returns the member that counts, or me, before m in the order of addresses.
func (r ring) beforeAddress(m *state.Member) *state.Member {
	n := len(r.members)
	at, _ := slices.BinarySearchFunc(r.members, m.Address, func(o *state.Member, address string) int {
		return strings.Compare(o.Address, address)
	})
	for i := 1; i < n; i++ {
		if o := r.members[(at-i+n)%n]; o == r.me || r.counts(o) {
			return o
		}
	}
	return r.me
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
