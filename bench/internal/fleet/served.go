package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// AwaitServed returns the map when exactly the nodes of the fleet own the shards, with loads that differ by at
// most one, and every node shows the same map and serves all its shards.
func (f *Fleet) AwaitServed(ctx context.Context) (*sharding.Map, error) {
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for {
		m, err := f.served()
		if err == nil {
			return m, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait until the shards are served: %w", ctx.Err()), err)
		}
	}
}

func (f *Fleet) served() (*sharding.Map, error) {
	var written int64
	var m *sharding.Map
	for i, n := range f.Nodes {
		s := inspect.Snapshot(n.Cluster)
		if s == nil || s.ShardMap == nil || s.ShardMap.Map == nil {
			return nil, fmt.Errorf("%s shows no map", n.Address)
		}
		if i == 0 {
			written, m = s.ShardMap.ModRevision, s.ShardMap.Map
			if err := f.level(s); err != nil {
				return nil, err
			}
		}
		if s.ShardMap.ModRevision != written {
			return nil, fmt.Errorf("%s shows another map than %s", n.Address, f.Nodes[0].Address)
		}
		own := s.Member(n.Address)
		if own == nil {
			return nil, fmt.Errorf("%s is not registered", n.Address)
		}
		stats := n.Status().Shards
		if owns := load(m, own); stats.Serving != int64(owns) || stats.Waiting+int(stats.Acquiring+stats.Releasing) > 0 {
			return nil, fmt.Errorf("%s owns %d shards and serves %d", n.Address, owns, stats.Serving)
		}
	}
	return m, nil
}

// level returns an error unless the map of s assigns all shards to the nodes of the fleet as evenly as
// possible.
func (f *Fleet) level(s *state.Snapshot) error {
	if len(s.Members) != len(f.Nodes) {
		return fmt.Errorf("%d members are registered", len(s.Members))
	}
	m, least := s.ShardMap, s.ShardMap.Shards()/len(f.Nodes)
	all := 0
	for _, n := range f.Nodes {
		own := s.Member(n.Address)
		if own == nil {
			return fmt.Errorf("%s is not registered", n.Address)
		}
		owns := load(m.Map, own)
		if owns < least || owns > least+1 {
			return fmt.Errorf("%s owns %d shards of %d", n.Address, owns, m.Shards())
		}
		all += owns
	}
	if all != m.Shards() {
		return fmt.Errorf("%d shards of %d are the nodes'", all, m.Shards())
	}
	return nil
}

func load(m *sharding.Map, of *state.Member) int {
	for _, l := range m.Loads() {
		if l.Owner == (sharding.Owner{Address: of.Address, Incarnation: of.Incarnation}) {
			return l.Shards
		}
	}
	return 0
}
