package state

// MarksRemoval reports whether the accusation is the mark that m was removed for its silence.
func (r AccusationRecord) MarksRemoval(m *Member) bool {
	return r.Removed && r.Incarnation == m.Incarnation
}

// RemovalMarkOf returns the mark that m was removed for its silence, or nil if there is none. Its author deletes it
// after some seconds, so its absence says nothing.
func (s *Snapshot) RemovalMarkOf(m *Member) *Accusation {
	i, _ := s.accusationIndex(m.Address, "")
	for ; i < len(s.Accusations) && s.Accusations[i].Address == m.Address; i++ {
		if a := s.Accusations[i]; a.MarksRemoval(m) {
			return a
		}
	}
	return nil
}

// RemovingAccusation returns the accusation by which m was removed between two snapshots, or nil if there was none. It
// is the mark of that, or else an accusation that before shows; of several, one that is gone, because it was deleted
// together with m.
func RemovingAccusation(before, now *Snapshot, m *Member) (found *Accusation) {
	if mark := now.RemovalMarkOf(m); mark != nil {
		return mark
	}
	for _, a := range before.Accusations {
		if a.Address != m.Address || a.Incarnation != m.Incarnation {
			continue
		}
		if !now.AccusationStands(a.Address, a.Accuser, a.ModRevision) {
			return a
		}
		if found == nil {
			found = a
		}
	}
	return found
}
