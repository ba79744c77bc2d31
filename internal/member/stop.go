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
func (c *Core) MarkTimeout() time.Duration { return min(c.cfg.RequestTimeout, markTimeout) }

// MarkStopping records that this member stops, and reports whether others can know it and take over, because
// etcd has answered. It blocks for MarkTimeout at most.
func (c *Core) MarkStopping(ctx context.Context) (marked bool) {
	c.Member.MarkStopping()
	s := c.Keeper.Current()
	if s == nil || !s.Period().ValidDespitePause() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.MarkTimeout())
	defer cancel()
	return c.Member.AwaitRecorded(ctx) == nil
}

// HandOverShards blocks until the map assigns no shard to this member, no member is left that could plan or take the
// shards, or ctx ends.
func (c *Core) HandOverShards(ctx context.Context) error {
	s := c.Keeper.Current()
	if c.cfg.Shards == nil || s == nil {
		return nil
	}
	// However long functions in the shards take, the others have two requests to make.
	ctx, cancel := context.WithTimeout(ctx, max(c.cfg.Shards.DrainTimeout, 2*c.cfg.RequestTimeout))
	defer cancel()
	period := s.Period()
	defer context.AfterFunc(period.Context(), cancel)()
	_, err := c.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return !c.OwnsShards(s) || !c.canHandOver(s) })
	if !period.ValidDespitePause() {
		return nil // nothing is left to hand over
	}
	return err
}

// ReleaseShards releases the remaining shards. It waits for work that ignores the end of its context as long as a
// leader waits for its work.
func (c *Core) ReleaseShards(ctx context.Context) error {
	if c.cfg.Shards == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Shards.DrainTimeout+c.cfg.WorkTimeout)
	defer cancel()
	return c.Manager.Relinquish(ctx)
}

// OwnsShards reports whether the map assigns shards to this member.
func (c *Core) OwnsShards(s *state.Snapshot) bool {
	own, m := s.Member(c.cfg.Address), s.Map()
	if own == nil || m == nil {
		return false
	}
	me := sharding.Owner{Address: own.Address, Incarnation: own.Incarnation}
	return slices.ContainsFunc(m.Loads(), func(load sharding.Load) bool { return load.Owner == me })
}

// canHandOver reports whether other members can plan and take this member's shards.
func (c *Core) canHandOver(s *state.Snapshot) bool {
	taker := false
	for _, m := range shardplan.PlanMembers(s, c.cfg.Planning) {
		taker = taker || !m.Excluded && m.Address != c.cfg.Address
	}
	planner := slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		if m.Stopping || m.Address == c.cfg.Address {
			return false
		}
		queued, _ := s.CandidateOn(m.Lease)
		return queued != nil || m.ElectionFailed
	})
	return taker && planner
}

// MarkLeft records that the others need not wait for this member. Call it only when all its work has ended.
// Without it they wait, because they cannot distinguish this member from one that does not know that its lease
// is gone.
func (c *Core) MarkLeft(ctx context.Context) {
	s := c.Keeper.Current()
	if s == nil || !s.Period().ValidDespitePause() || s.RaftTerm() >= c.Mirror.KnownTerm() {
		return
	}
	c.Member.MarkLeft()
	ctx, cancel := context.WithTimeout(ctx, c.MarkTimeout())
	defer cancel()
	_ = c.Member.AwaitRecorded(ctx) // if it fails, the others wait
}

// EndSession ends the session and revokes its lease. If etcd does not answer, it blocks for about a second and
// returns etcd's error; this member's keys then stay until the lease ends.
func (c *Core) EndSession() error {
	c.stopKeeper()
	<-c.keeperDone
	return c.Keeper.RevokeError()
}

// Close ends the remaining goroutines of Start and waits for them. Call EndSession, Detector.Stop and Manager.Stop
// first.
func (c *Core) Close() {
	c.stopBackground()
	c.background.Wait()
}
