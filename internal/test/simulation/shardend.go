package simulation

import (
	"fmt"
	"slices"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// shardDeviation returns the first deviation of the shards from a recovered cluster, or "" if there is none. Each
// shard must be served by its owner and by no other node, the load must be even, and no owner may wait for
// another one.
func (w *world) shardDeviation(s *state.Snapshot) string {
	var takers []sharding.Owner
	for _, m := range shardplan.PlanMembers(s, w.planSettings(w.shards)) {
		if !m.Excluded {
			takers = append(takers, m.Owner)
		}
	}
	switch {
	case s.Planner() == nil:
		return "" // all are observers
	case len(takers) == 0:
		return "" // no node can take a shard
	case s.Map() == nil:
		return "there is no shard map"
	}
	m := s.Map()
	for n := range w.shards {
		owner, ok := m.Owner(n)
		if !ok || !slices.Contains(takers, owner) {
			return fmt.Sprintf("shard %d is %v's", n, owner)
		}
		if why := w.ownerDeviation(n, owner, m.Epoch(n)); why != "" {
			return why
		}
		if move, open := m.Move(n); open && !s.MoveDone(move) {
			return fmt.Sprintf("shard %d waits for %v", n, move.From)
		}
	}
	for _, owner := range takers {
		if n := countOwned(m, owner); n < w.shards/len(takers) || n > (w.shards+len(takers)-1)/len(takers) {
			return fmt.Sprintf("%d members share %d shards, and %s has %d", len(takers), w.shards, owner.Address, n)
		}
	}
	return overstatedReport(s)
}

// countOwned returns the number of shards that a map assigns to an owner.
func countOwned(m *sharding.Map, o sharding.Owner) int {
	for _, load := range m.Loads() {
		if load.Owner == o {
			return load.Shards
		}
	}
	return 0
}

// overstatedReport describes a report of a generation newer than the map, or returns "" if there is none.
func overstatedReport(s *state.Snapshot) string {
	for _, r := range s.Released {
		if m := s.Member(r.Address); m != nil && m.Incarnation == r.Incarnation && r.Generation > s.ShardMap.Generation() {
			return fmt.Sprintf("a report of %s is about generation %d, and the map has %d",
				r.Address, r.Generation, s.ShardMap.Generation())
		}
	}
	return ""
}

// ownerDeviation returns the first deviation in the serving of a shard.
func (w *world) ownerDeviation(n int, owner sharding.Owner, epoch int64) string {
	for _, h := range w.hosts {
		p := h.process
		if p == nil || p.host.roles.shards == 0 {
			continue
		}
		served, serves := p.shards.Serves(n)
		mine := owner == sharding.Owner{Address: h.address, Incarnation: w.checks.lastIncarnation(p)}
		switch {
		case mine && !serves:
			return fmt.Sprintf("%s owns shard %d and does not serve it", p.id, n)
		case mine && served != epoch:
			return fmt.Sprintf("%s serves shard %d under epoch %d and not %d", p.id, n, served, epoch)
		case !mine && (serves || p.user.acquiringEpoch(n) != 0):
			return fmt.Sprintf("%s holds shard %d, which is %v's", p.id, n, owner)
		}
	}
	return ""
}
