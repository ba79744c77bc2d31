package state

// Planner returns the member that has the duty to plan, or nil if there is none. It is the leader if that can plan.
// While an outside candidate or one of an election only leads, it is the first candidate that can plan.
func (s *Snapshot) Planner() *Member {
	if l := s.Leader(); l.Fallback && l.Member {
		return s.Member(l.Address)
	}
	for _, c := range s.Queue {
		if m := s.MemberOf(c); m != nil && !m.ElectionOnly {
			return m
		}
	}
	return nil
}
