package member

import (
	"context"
	"slices"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// handOverShards blocks until the map assigns no shard to this member, no member is left that could plan or take the
// shards, or ctx ends.
func (m *Member) handOverShards(ctx context.Context) error {
	s := m.Keeper.Current()
	if m.Consensus.Shards() == nil || s == nil {
		return nil
	}
	// However long functions in the shards take, the others have two requests to make.
	ctx, cancel := context.WithTimeout(ctx, max(m.cfg.DrainTimeout, 2*m.cfg.RequestTimeout))
	defer cancel()
	period := s.Period()
	defer context.AfterFunc(period.Context(), cancel)()
	_, err := m.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return !m.ownsShards(s) || !m.canHandOver(s) })
	if !period.ValidDespitePause() {
		return nil // nothing is left to hand over
	}
	return err
}

// releaseShards releases the remaining shards. It waits for work that ignores the end of its context as long as a
// leader waits for its work.
func (m *Member) releaseShards(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.DrainTimeout+m.cfg.WorkTimeout)
	defer cancel()
	return m.Consensus.Relinquish(ctx)
}

// ownsShards reports whether the map assigns shards to this member.
func (m *Member) ownsShards(s *state.Snapshot) bool {
	own, shards := s.Member(m.cfg.Address), s.Map()
	if own == nil || shards == nil {
		return false
	}
	me := sharding.Owner{Address: own.Address, Incarnation: own.Incarnation}
	return slices.ContainsFunc(shards.Loads(), func(load sharding.Load) bool { return load.Owner == me })
}

// canHandOver reports whether other members can plan and take this member's shards.
func (m *Member) canHandOver(s *state.Snapshot) bool {
	taker := false
	for _, other := range shardplan.PlanMembers(s, m.cfg.Planning) {
		taker = taker || !other.Excluded && other.Address != m.cfg.Address
	}
	planner := slices.ContainsFunc(s.Members, func(other *state.Member) bool {
		if other.Stopping || other.ElectionOnly || other.Address == m.cfg.Address {
			return false
		}
		queued, _ := s.CandidateOn(other.Lease)
		return queued != nil || other.ElectionFailed
	})
	return taker && planner
}
