package watchcache

import (
	"context"
	"slices"

	"github.com/goverse/goverse/internal/etcd/lingering"
	"github.com/goverse/goverse/internal/state"
)

// freshness is whether a snapshot was fresh in a raft term of etcd's.
type freshness struct {
	of    *state.Snapshot
	term  uint64
	fresh bool
}

// Fresh reports whether every other member that is or was in view has given up what is gone from
// etcd, or knows that it is: the snapshot is not stale, nobody lingers, and nobody can begin to, for no
// lease is older than etcd's raft term, as far as this process knows it. Term is the newest that the
// caller has heard of. It does not block, and asks nobody. Without [Config.Member] it is true.
func (m *Mirror) Fresh(term uint64) bool {
	m.inTerm(term)
	s, term := m.Snapshot(), m.term.Load()
	if f := m.fresh.Load(); f != nil && f.of == s && f.term == term {
		return f.fresh
	}
	f := &freshness{of: s, term: term, fresh: s != nil && !s.Stale && lingering.Fresh(s, m.cfg.Member, term)}
	m.fresh.Store(f)
	return f.fresh
}

// Confirm blocks until the snapshot is known to lack nothing that etcd had done before the call, and
// reports whether nobody lingers in it. With wait it blocks until none of those do any longer. It asks
// etcd once. The error is etcd's, or ctx's cause.
func (m *Mirror) Confirm(ctx context.Context, wait bool) (clear bool, err error) {
	known := m.Known()
	now := m.compare(ctx, 0)
	if now.err != nil {
		return false, now.err
	}
	has := func(s *state.Snapshot) bool {
		return s.ClusterID == now.clusterID && (s.Revision >= now.revision || !s.Lacks(now.newest, now.total))
	}
	if s := m.Snapshot(); s != nil && now.revision >= known && has(s) {
		m.inTerm(now.header.GetRaftTerm()) // and the watch has nothing to bring
	} else {
		m.Saw(now.header, known)
	}
	s, err := m.Wait(ctx, has)
	if err != nil || len(s.Lingering) == 0 || !wait {
		return err == nil && len(s.Lingering) == 0, err
	}
	// Who begins to linger from now on lost its keys after the answer.
	_, err = m.Wait(ctx, func(later *state.Snapshot) bool {
		return !slices.ContainsFunc(s.Lingering, func(k state.Kept) bool { return later.Lingers(k.Member) })
	})
	return err == nil, err
}
