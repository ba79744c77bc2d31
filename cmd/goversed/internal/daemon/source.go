package daemon

import (
	"context"
	"sync/atomic"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
)

// statusSource provides the state that the status API shows: that of the cluster, or of a starting node as long as
// there is no cluster.
type statusSource struct {
	startStatus cluster.Status
	cluster     atomic.Pointer[cluster.Cluster]
}

func newStatusSource(address string) *statusSource {
	return &statusSource{startStatus: cluster.Status{NodeID: address, State: cluster.StateStarting,
		Mode: leaderelection.ModeElection}}
}

func (s *statusSource) setCluster(c *cluster.Cluster) { s.cluster.Store(c) }

// Status implements httpapi.Source.
func (s *statusSource) Status() cluster.Status {
	if c := s.cluster.Load(); c != nil {
		return c.Status()
	}
	return s.startStatus
}

// LeaderInfo implements httpapi.Source.
func (s *statusSource) LeaderInfo(ctx context.Context) (cluster.LeaderInfo, error) {
	if c := s.cluster.Load(); c != nil {
		return c.LeaderInfo(ctx)
	}
	return cluster.LeaderInfo{}, cluster.ErrNotStarted
}

// ShardTable implements httpapi.Source.
func (s *statusSource) ShardTable() (shard.Table, error) {
	if c := s.cluster.Load(); c != nil {
		return c.ShardTable()
	}
	return shard.Table{}, cluster.ErrNotStarted
}

// Stats implements httpapi.StatsSource.
func (s *statusSource) Stats() cluster.Stats {
	if c := s.cluster.Load(); c != nil {
		return c.Stats()
	}
	return cluster.Stats{}
}

// Objects implements httpapi.ObjectSource. A goversed node hosts no objects, but can locate their keys.
func (s *statusSource) Objects() *objects.Objects {
	if c := s.cluster.Load(); c != nil {
		return c.Objects()
	}
	return nil
}

// Cluster implements httpapi.ClusterSource.
func (s *statusSource) Cluster() *cluster.Cluster { return s.cluster.Load() }
