package member

import (
	"context"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// markTimeout limits the wait until the record says that this member stops. It takes a millisecond unless etcd
// is away.
const markTimeout = time.Second

// MarkTimeout returns the limit of requests that a stopping member makes only for the sake of others.
func (m *Member) MarkTimeout() time.Duration { return min(m.cfg.RequestTimeout, markTimeout) }

// MarkStopping records that this member stops, and reports whether others can know it and take over, because
// etcd has answered. It blocks for MarkTimeout at most.
func (m *Member) MarkStopping(ctx context.Context) (marked bool) {
	m.Membership.MarkStopping()
	s := m.Keeper.Current()
	if s == nil || !s.Period().ValidDespitePause() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, m.MarkTimeout())
	defer cancel()
	return m.Membership.AwaitRecorded(ctx) == nil
}

// HandOverShards blocks until the map assigns no shard to this member, no member is left that could plan or take the
// shards, or ctx ends.
func (m *Member) HandOverShards(ctx context.Context) error {
	s := m.Keeper.Current()
	if m.cfg.Shards == nil || s == nil {
		return nil
	}
	// However long functions in the shards take, the others have two requests to make.
	ctx, cancel := context.WithTimeout(ctx, max(m.cfg.Shards.DrainTimeout, 2*m.cfg.RequestTimeout))
	defer cancel()
	period := s.Period()
	defer context.AfterFunc(period.Context(), cancel)()
	_, err := m.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return !m.OwnsShards(s) || !m.canHandOver(s) })
	if !period.ValidDespitePause() {
		return nil // nothing is left to hand over
	}
	return err
}

// ReleaseShards releases the remaining shards. It waits for work that ignores the end of its context as long as a
// leader waits for its work.
func (m *Member) ReleaseShards(ctx context.Context) error {
	if m.cfg.Shards == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Shards.DrainTimeout+m.cfg.WorkTimeout)
	defer cancel()
	return m.Consensus.Relinquish(ctx)
}

// OwnsShards reports whether the map assigns shards to this member.
func (m *Member) OwnsShards(s *state.Snapshot) bool {
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
		if other.Stopping || other.Address == m.cfg.Address {
			return false
		}
		queued, _ := s.CandidateOn(other.Lease)
		return queued != nil || other.ElectionFailed
	})
	return taker && planner
}

// MarkLeft records that the others need not wait for this member. Call it only when all its work has ended.
// Without it they wait, because they cannot distinguish this member from one that does not know that its lease
// is gone.
func (m *Member) MarkLeft(ctx context.Context) {
	s := m.Keeper.Current()
	if s == nil || !s.Period().ValidDespitePause() || s.RaftTerm() >= m.Mirror.KnownTerm() {
		return
	}
	m.Membership.MarkLeft()
	ctx, cancel := context.WithTimeout(ctx, m.MarkTimeout())
	defer cancel()
	_ = m.Membership.AwaitRecorded(ctx) // if it fails, the others wait
}

// EndSession ends the session and revokes its lease. If etcd does not answer, it blocks for about a second and
// returns etcd's error; this member's keys then stay until the lease ends.
func (m *Member) EndSession() error {
	m.stopKeeper()
	<-m.keeperDone
	return m.Keeper.RevokeError()
}

// Close ends the remaining goroutines of Start and waits for them. Call EndSession, Detector.Stop and
// Consensus.Stop first.
func (m *Member) Close() {
	m.stopBackground()
	m.background.Wait()
}
