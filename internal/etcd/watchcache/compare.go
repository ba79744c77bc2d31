package watchcache

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
)

// comparison holds the facts about etcd's range at a revision that show whether a snapshot lacks anything.
type comparison struct {
	header    *etcdserverpb.ResponseHeader
	revision  int64
	clusterID uint64
	total     int
	newest    int64 // the revision at which a key was last written
	err       error
}

// compareWithEtcd asks etcd, with a small answer, for the state of the range at a revision. The revision is some time
// ago, so that changes on their way have arrived; 0 means the present one. A member of etcd that is cut off
// from the others refuses, with rpctypes.ErrNoLeader.
func (m *Mirror) compareWithEtcd(ctx context.Context, revision int64) comparison {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), m.cfg.RequestTimeout)
	defer cancel()
	c := comparison{revision: revision}
	resp, err := m.cfg.Client.Get(ctx, m.cfg.Keys.RangeStart(), clientv3.WithRange(m.cfg.Keys.RangeEnd()),
		clientv3.WithRev(revision),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		c.err = fmt.Errorf("compare with etcd at revision %d: %w", revision, err)
		return c
	}
	c.header, c.clusterID, c.total = resp.Header, resp.Header.ClusterId, int(resp.Count)
	if revision == 0 {
		c.revision = resp.Header.Revision
	}
	for _, kv := range resp.Kvs {
		c.newest = kv.ModRevision
	}
	return c
}

// checkSnapshot returns nil if a snapshot that has not reached the revision lacks nothing.
func (c comparison) checkSnapshot(s *state.Snapshot) error {
	switch {
	case c.err != nil:
		return c.err
	case c.clusterID != s.ClusterID:
		return fmt.Errorf("etcd is another one: cluster %x, before %x", c.clusterID, s.ClusterID)
	case s.MissesChange(c.newest, c.total):
		return fmt.Errorf("the watch has brought nothing since revision %d and should be at %d", s.Revision, c.revision)
	}
	return nil
}
