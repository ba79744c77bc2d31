package shardview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// applyChange returns the snapshot with the changes made.
func applyChange(s *state.Snapshot, suppose SupposedChange) (*state.Snapshot, error) {
	now := *s
	now.Members = slices.Clone(s.Members)
	for _, address := range suppose.Leave {
		i := slices.IndexFunc(now.Members, func(m *state.Member) bool { return m.Address == address })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s", ErrUnknownNode, address)
		}
		leaving := *now.Members[i]
		leaving.Draining = true
		now.Members[i] = &leaving
	}
	for i, j := range suppose.Join {
		if now.Member(j.Address) != nil {
			return nil, fmt.Errorf("%w: %s", ErrKnownNode, j.Address)
		}
		m := &state.Member{Address: j.Address, Incarnation: s.Revision + int64(i) + 1}
		m.Shards, m.Weight = shardCount(s), j.Weight
		now.Members = append(now.Members, m)
		slices.SortFunc(now.Members, func(a, b *state.Member) int { return strings.Compare(a.Address, b.Address) })
	}
	return &now, nil
}

// shardCount returns the number of shards, or the default number if none is set yet.
func shardCount(s *state.Snapshot) int { return cmp.Or(shardplan.ShardCount(s, 0), shard.DefaultCount) }

// snapshotAfter returns the snapshot after a map was written and all its moves are done.
func snapshotAfter(s *state.Snapshot, m *sharding.Map) *state.Snapshot {
	next := *s
	next.Revision = max(s.Revision, m.Generation()) + 1
	next.ShardMap = &state.ShardMap{Map: m, ModRevision: next.Revision}
	next.Released = nil
	for _, member := range s.Members {
		next.Released = append(next.Released, &state.ReleaseReport{Address: member.Address,
			Report: sharding.Report{Incarnation: member.Incarnation, Generation: m.Generation()}})
	}
	return &next
}
