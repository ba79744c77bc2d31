package watchcache

import (
	"context"
	"slices"

	"github.com/goverse/goverse/internal/etcd/lingering"
	"github.com/goverse/goverse/internal/state"
)

// freshness records whether a snapshot was fresh in a raft term of etcd.
type freshness struct {
	snapshot *state.Snapshot
	term     uint64
	fresh    bool
}

// Fresh reports whether no other member can still rely on keys that are gone from etcd without noticing. That
// is so if the snapshot is not stale, no member lingers, and none can begin to, because no lease is older than
// etcd's newest raft term that this process knows. term is the newest one that the caller knows. Fresh does not
// block and sends no request. Without an Address only the staleness of the snapshot counts.
func (m *Mirror) Fresh(term uint64) bool {
	m.recordTerm(term)
	s, term := m.Snapshot(), m.knownTerm.Load()
	if f := m.fresh.Load(); f != nil && f.snapshot == s && f.term == term {
		return f.fresh
	}
	f := &freshness{snapshot: s, term: term, fresh: s != nil && !s.Stale && lingering.ViewFresh(s, m.cfg.self(), term)}
	m.fresh.Store(f)
	return f.fresh
}

// Confirm blocks until the snapshot is known to contain everything that etcd had committed before the call, and
// reports whether no member lingers in it. If wait is true, it then blocks until none of the lingering members
// lingers any longer. It asks etcd once. It returns etcd's error or the cause of ctx.
func (m *Mirror) Confirm(ctx context.Context, wait bool) (clear bool, err error) {
	known := m.KnownRevision()
	now := m.compareWithEtcd(ctx, calm, 0)
	if now.err != nil {
		return false, now.err
	}
	has := func(s *state.Snapshot) bool {
		return s.ClusterID == now.clusterID && (s.Revision >= now.revision || !s.MissesChange(now.newest, now.total))
	}
	if s := m.Snapshot(); s != nil && now.revision >= known && has(s) {
		m.recordTerm(now.header.GetRaftTerm()) // the watch has nothing to deliver
	} else {
		m.ObserveHeader(now.header, known)
	}
	s, err := m.Wait(ctx, has)
	if err != nil || len(s.Lingering) == 0 || !wait {
		return err == nil && len(s.Lingering) == 0, err
	}
	// A member that begins to linger later lost its keys after the answer.
	_, err = m.Wait(ctx, func(later *state.Snapshot) bool {
		return !slices.ContainsFunc(s.Lingering, func(k state.LingeringState) bool { return later.Lingers(k.Member) })
	})
	return err == nil, err
}
