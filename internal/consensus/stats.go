package consensus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/sharding"
)

// ShardStats is this node's part in the shards, as figures. With sharding off all of
// them are zero.
type ShardStats struct {
	// Shards is how many there are.
	Shards int
	// What this node holds at present: shards that it acquires (OnAcquire runs), serves,
	// and lets go of. Serving is 0 while the session is not valid.
	Acquiring, Serving, Releasing int64
	// Waiting is how many are this node's, and still somebody else's to let go of.
	Waiting int

	// Counters since the start. Plans are the maps that this node wrote. Given are the
	// shards in them that had no owner alive, Emptied those that left a member on its way
	// out, Levelled those that moved for an even load.
	Plans, Given, Emptied, Levelled int64
	// PlanTime is how long the last of these maps took to compute, 0 before the first.
	PlanTime time.Duration
	// Pauses are those of the shards that came to this node by a move: from when it first
	// saw the move until it served the shard.
	Pauses Pauses
}

// Pauses is a histogram of pauses.
type Pauses struct {
	Count   int64
	Sum     time.Duration
	Buckets [len(pauseBounds)]PauseBucket
}

// PauseBucket is how many pauses took AtMost so long; shorter ones are counted in too.
type PauseBucket struct {
	AtMost time.Duration
	Count  int64
}

// pauseBounds are close together where handoffs should be, and reach as far as a straggler.
var pauseBounds = [...]time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// observed is the histogram with one pause more.
func (p Pauses) observed(pause time.Duration) Pauses {
	p.Count++
	p.Sum += pause
	for i, bound := range pauseBounds {
		if pause <= bound {
			p.Buckets[i].Count++
		}
	}
	return p
}

// bounded is the histogram with its bounds filled in.
func (p Pauses) bounded() Pauses {
	for i, bound := range pauseBounds {
		p.Buckets[i].AtMost = bound
	}
	return p
}

// ShardStats does not block, and asks nobody. On a nil manager all is zero.
func (m *ConsensusManager) ShardStats() ShardStats {
	var st ShardStats
	if m == nil {
		return st
	}
	if m.shards != nil {
		m.shards.stats(&st)
	}
	m.planner.stats.read(&st)
	return st
}

func (h *Shards) stats(st *ShardStats) {
	st.Shards, st.Waiting = h.cfg.Shards, h.Waiting()
	// A shard on its way from one phase to the next may be counted out before it is counted in.
	now := func(p phase) int64 { return max(h.phases[p].Load(), 0) }
	st.Acquiring, st.Serving, st.Releasing = now(acquiring), now(serving), now(releasing)
	if s := h.cfg.Keeper.Current(); s == nil || !s.Valid() {
		st.Serving = 0
	}
	h.pauses.mu.Lock()
	defer h.pauses.mu.Unlock()
	st.Pauses = h.pauses.all.bounded()
}

// planStats counts what a planner wrote.
type planStats struct {
	plans, given, emptied, levelled, took atomic.Int64
}

func (p *planStats) wrote(plan sharding.Result, took time.Duration) {
	p.took.Store(int64(took))
	p.given.Add(int64(plan.Given))
	p.emptied.Add(int64(plan.Emptied))
	p.levelled.Add(int64(plan.Levelled))
	p.plans.Add(1)
}

func (p *planStats) read(st *ShardStats) {
	st.Plans, st.Given, st.Emptied, st.Levelled = p.plans.Load(), p.given.Load(), p.emptied.Load(), p.levelled.Load()
	st.PlanTime = time.Duration(p.took.Load())
}

// pauses is written by all who acquire shards.
type pauses struct {
	mu  sync.Mutex
	all Pauses
}

func (p *pauses) observe(pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = p.all.observed(pause)
}
