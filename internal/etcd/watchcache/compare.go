package watchcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
)

// errBehind is returned if the watch did not deliver what etcd has. errNamed is the reason to read the range anew if
// another process has named the change.
var (
	errBehind = errors.New("the watch has brought nothing")
	errNamed  = errors.New("another node has named a change")
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
func (m *Mirror) compareWithEtcd(ctx context.Context, u urgency, revision int64) comparison {
	c := comparison{revision: revision}
	resp, err := m.read(ctx, u, clientv3.WithRev(revision),
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

// CheckUpTo compares the snapshot with etcd at a revision that another process has named, if the watch does not reach
// it within a time, and has the range read anew if a change is missing. The process may be wrong: if etcd does not
// have the revision, nothing happens. It blocks until etcd has answered, or ctx ends.
func (m *Mirror) CheckUpTo(ctx context.Context, revision int64, within time.Duration) {
	if m.reaches(ctx, revision, within) || ctx.Err() != nil {
		return
	}
	c := m.compareWithEtcd(ctx, urgent, revision)
	s := m.Snapshot()
	if s == nil || s.Stale || s.Revision >= revision {
		return // meanwhile
	}
	switch err := c.checkSnapshot(s); {
	case errors.Is(err, errBehind):
		m.requestRebuild(fmt.Errorf("%w: %w", errNamed, err))
	case c.err == nil && err != nil:
		m.Rebuild(err.Error())
	}
}

// reaches reports whether a snapshot reaches a revision within a time.
func (m *Mirror) reaches(ctx context.Context, revision int64, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := m.Wait(ctx, func(s *state.Snapshot) bool { return s.Revision >= revision })
	return err == nil
}

// checkSnapshot returns nil if a snapshot that has not reached the revision lacks nothing.
func (c comparison) checkSnapshot(s *state.Snapshot) error {
	switch {
	case c.err != nil:
		return c.err
	case c.clusterID != s.ClusterID:
		return fmt.Errorf("etcd is another one: cluster %x, before %x", c.clusterID, s.ClusterID)
	case s.MissesChange(c.newest, c.total):
		return fmt.Errorf("%w since revision %d and should be at %d", errBehind, s.Revision, c.revision)
	}
	return nil
}
