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
