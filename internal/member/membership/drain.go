package membership

import (
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// mustDrain reports whether a member must release its shards. A request about this incarnation decides; without
// one, the record stays as it is. A stopping member drains in any case.
func mustDrain(record state.Record, incarnation int64, request *state.Drain) bool {
	switch {
	case record.Stopping:
		return true
	case request == nil || request.Incarnation != incarnation:
		return record.Draining
	}
	return !request.Undo
}

// applyDrain applies the snapshot's drain request to the record. It returns the record, with the session and
// the incarnation that it belongs to.
func (m *Membership) applyDrain(snap *state.Snapshot) (s *etcdsession.Session, incarnation int64, want state.Record) {
	m.mu.Lock()
	before := m.record.Draining
	if snap != nil && m.incarnation != 0 {
		m.record.Draining = mustDrain(m.record, m.incarnation, snap.DrainOf(m.cfg.Address))
	}
	s, incarnation, want = m.session, m.incarnation, m.record
	m.mu.Unlock() // log without the lock, because the mirror's goroutine takes it too
	switch {
	case want.Draining && !before:
		m.log.Info("an operator drains this node: it gives its shards up, and gets none until that is undone or it " +
			"starts again")
	case before && !want.Draining:
		m.log.Info("an operator ended the drain: this node can get shards again")
	}
	return s, incarnation, want
}
