package suspicion

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// silentFew is how many members may be marked silent, or a twentieth of all if that is more, until nobody marks another
// one: where most of a cluster stands still each mark is read by all, and says what everybody knows.
const silentFew = 3

// Unanswered is a member that does not answer this one, and for how long.
type Unanswered struct {
	Address     string
	Incarnation int64
	Silent      time.Duration
}

// Marks are the changes of the keys by which a watcher says which members do not answer it.
type Marks struct {
	Write []Unanswered
	Erase []*state.Silence
}

// None reports whether there is nothing to do.
func (m Marks) None() bool { return len(m.Write) == 0 && len(m.Erase) == 0 }

// MarksOf are the changes to make by the watcher with that instance id, to which these members do not answer. A mark is
// written anew when the silence has lasted half as long again as it says: those that read it later have no other clock.
// It is erased when the member answers, is gone, or is not watched any more.
func MarksOf(s *state.Snapshot, instance string, silent []Unanswered) Marks {
	var out Marks
	if len(silent) == 0 && len(s.Silences) == 0 {
		return out
	}
	stands := map[string]*state.Silence{}
	for _, x := range s.Silences {
		if x.Watcher != instance {
			continue
		}
		stands[x.Address] = x
		if !slices.ContainsFunc(silent, func(u Unanswered) bool {
			return u.Address == x.Address && u.Incarnation == x.Incarnation
		}) {
			out.Erase = append(out.Erase, x)
		}
	}
	if s.SilentMembers() > max(silentFew, len(s.Members)/20) {
		return out
	}
	for _, u := range silent {
		m := s.Member(u.Address)
		if m == nil || m.Incarnation != u.Incarnation || s.Lingers(m) {
			continue
		}
		x := stands[u.Address]
		if x == nil || x.Incarnation != u.Incarnation || 2*u.Silent >= 3*max(x.Silent(), time.Second) {
			out.Write = append(out.Write, u)
		}
	}
	return out
}
