package suspicion

import (
	"slices"

	"github.com/goverse/goverse/cluster/state"
)

// Targets are the members whom the one at address watches: in the order of addresses
// those that follow it, until k of them are not suspected. So where many died at
// once, those behind them are looked at without waiting for their removal. None if
// there is no member at address.
func Targets(s *state.Snapshot, address string, k int, suspected func(*state.Member) bool) []*state.Member {
	own := slices.IndexFunc(s.Members, func(m *state.Member) bool { return m.Address == address })
	if own < 0 {
		return nil
	}
	var out []*state.Member
	for i := 1; i < len(s.Members) && k > 0; i++ {
		m := s.Members[(own+i)%len(s.Members)]
		out = append(out, m)
		if !suspected(m) {
			k--
		}
	}
	return out
}
