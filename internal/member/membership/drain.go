package membership

import (
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// drains is whether a member gives its shards up: as its record says already, unless there is a request
// about this very incarnation. A member that stops does in any case.
func drains(record state.Record, incarnation int64, request *state.Drain) bool {
	switch {
	case record.Stopping:
		return true
	case request == nil || request.Incarnation != incarnation:
		return record.Draining
	}
	return !request.Undo
}

// applyDrain brings the record in line with the drain request that the snapshot shows, and returns it with
// the session and the incarnation that it belongs to.
func (m *Membership) applyDrain(snap *state.Snapshot) (s *etcdsession.Session, incarnation int64, want state.Record) {
	m.mu.Lock()
	before := m.record.Draining
	if snap != nil && m.incarnation != 0 {
		m.record.Draining = drains(m.record, m.incarnation, snap.Drain(m.cfg.Address))
	}
	s, incarnation, want = m.session, m.incarnation, m.record
	m.mu.Unlock() // no line is written while it is held: the mirror's goroutine wants it, too
	switch {
	case want.Draining && !before:
		m.log.Info("an operator drains this node: it gives its shards up, and gets none until that is undone or it " +
			"starts again")
	case before && !want.Draining:
		m.log.Info("an operator ended the drain of this node: it may have shards again")
	}
	return s, incarnation, want
}
