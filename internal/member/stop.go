package member

import (
	"context"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// markTimeout bounds the wait for the mark that this member stops, which takes a millisecond
// unless etcd is away.
const markTimeout = time.Second

// MarkTimeout bounds what a stop asks of etcd for the sake of others, and can do without.
func (c *Core) MarkTimeout() time.Duration { return min(c.cfg.RequestTimeout, markTimeout) }

// MarkStopping says in the record that this member stops, and reports whether others can know it: etcd answers, so that
// they can take over. It blocks for MarkTimeout at most.
func (c *Core) MarkStopping(ctx context.Context) (marked bool) {
	c.Member.MarkStopping()
	s := c.Keeper.Current()
	if s == nil || !s.Period().Stands() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.MarkTimeout())
	defer cancel()
	return c.Member.Recorded(ctx) == nil
}

// HandOver waits until the map names this member for no shard any more, or nobody is left
// who could take them or plan, or ctx ends.
func (c *Core) HandOver(ctx context.Context) error {
	s := c.Keeper.Current()
	if c.cfg.Shards == nil || s == nil {
		return nil
	}
	// The others have two requests to make, whatever runs in the shards.
	ctx, cancel := context.WithTimeout(ctx, max(c.cfg.Shards.DrainTimeout, 2*c.cfg.RequestTimeout))
	defer cancel()
	period := s.Period()
	defer context.AfterFunc(period.Context(), cancel)()
	_, err := c.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return !c.Owns(s) || !c.canHandOver(s) })
	if !period.Stands() {
		return nil // nothing is left to hand over
	}
	return err
}

// Relinquish releases the shards that are left. What ignores that its context ended is waited for as
// long as a leader waits for its work.
func (c *Core) Relinquish(ctx context.Context) error {
	if c.cfg.Shards == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Shards.DrainTimeout+c.cfg.WorkTimeout)
	defer cancel()
	return c.Manager.Relinquish(ctx)
}

// Owns reports whether a map gives shards to this member.
func (c *Core) Owns(s *state.Snapshot) bool {
	own, m := s.Member(c.cfg.Address), s.Map()
	if own == nil || m == nil {
		return false
	}
	me := sharding.Owner{Address: own.Address, Incarnation: own.Incarnation}
	return slices.ContainsFunc(m.Loads(), func(load sharding.Load) bool { return load.Owner == me })
}

// canHandOver reports whether others are there to plan and to take what this member owns.
func (c *Core) canHandOver(s *state.Snapshot) bool {
	taker := false
	for _, m := range shardplan.Members(s, c.cfg.Planning) {
		taker = taker || !m.Excluded && m.Address != c.cfg.Address
	}
	planner := slices.ContainsFunc(s.Members, func(m *state.Member) bool {
		if m.Stopping || m.Address == c.cfg.Address {
			return false
		}
		queued, _ := s.Candidate(m.Lease)
		return queued != nil || m.ElectionFailed
	})
	return taker && planner
}

// MarkLeft says in the record that nothing of this member is left to wait for. It is for who has ended all: else others
// wait for this member, which they could not tell from one that does not know that its lease is gone.
func (c *Core) MarkLeft(ctx context.Context) {
	s := c.Keeper.Current()
	if s == nil || !s.Period().Stands() || s.Term() >= c.Mirror.Term() {
		return
	}
	c.Member.MarkLeft()
	ctx, cancel := context.WithTimeout(ctx, c.MarkTimeout())
	defer cancel()
	_ = c.Member.Recorded(ctx) // they wait, then
}

// Leave ends the session and revokes it. It blocks for about a second where etcd does not answer; the error is
// etcd's then, and this member's keys stay until its lease ends.
func (c *Core) Leave() error {
	c.leave()
	<-c.left
	return c.Keeper.Left()
}

// Close ends the rest, and returns when all that Start began has ended. Leave, Detector.Stop and Manager.Stop come
// before it.
func (c *Core) Close() {
	c.close()
	c.rest.Wait()
}
