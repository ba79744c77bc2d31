package consensusmanager

import (
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
)

// pauseBounds are dense where handoffs usually are, and reach as far as stragglers.
var pauseBounds = []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// ShardStats returns statistics of the shards. It does not block and sends no request.
func (r *Runner) ShardStats() shard.Stats {
	var st shard.Stats
	if r.shards != nil {
		r.shards.fillStats(&st)
	}
	r.planner.stats.fillStats(&st)
	return st
}

func (h *Shards) fillStats(st *shard.Stats) {
	st.Shards, st.Waiting = h.cfg.Planning.Shards, h.Waiting()
	// A shard between two phases may be subtracted from one before it is added to the next.
	now := func(p slotPhase) int64 { return max(h.phases[p].Load(), 0) }
	st.Acquiring, st.Serving, st.Releasing = now(phaseAcquiring), now(phaseServing), now(phaseReleasing)
	if s := h.cfg.Keeper.Current(); s == nil || !s.Valid() {
		st.Serving = 0
	}
	st.Pauses = h.pauses.Snapshot()
}

// planStats counts the plans that were written.
type planStats struct {
	plans, assigned, drained, rebalanced, took atomic.Int64
}

func (p *planStats) recordPlan(plan sharding.Result, took time.Duration) {
	p.took.Store(int64(took))
	p.assigned.Add(int64(plan.Assigned))
	p.drained.Add(int64(plan.Drained))
	p.rebalanced.Add(int64(plan.Rebalanced))
	p.plans.Add(1)
}

func (p *planStats) fillStats(st *shard.Stats) {
	st.Plans, st.Assigned, st.Drained, st.Rebalanced = p.plans.Load(), p.assigned.Load(), p.drained.Load(),
		p.rebalanced.Load()
	st.PlanTime = time.Duration(p.took.Load())
}
