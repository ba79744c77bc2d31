// Package shardplan decides when the shards are planned anew, as values: no clock, no goroutine, no I/O.
// Package sharding assigns them, and package consensusmanager writes the map.
//
//   - Shards that must move do so immediately: those without an owner, of members that are gone, and of
//     members that leave.
//   - Moves that only rebalance the load wait until the members have been the same for a window, so that
//     members that join together cause one rebalance. They are paid for from a budget, so that a member
//     that comes and goes cannot keep the others busy.
//   - The first map waits until there are enough members and none has joined for a moment. Otherwise, of
//     nodes that are started together, the first one would get all shards and have to move most of them away.
//
// Not promised: two planners may plan at different times. They make the same plan, and etcd lets only one of
// them write over the map that both have seen.
package shardplan

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// Settings configures a Planner.
type Settings struct {
	// Shards is the number of shards; 0 means the number that the other members work with.
	Shards int
	// Window is the time for which the members must have been the same before load is rebalanced.
	Window time.Duration
	// MinMembers is the number of members required for the first map.
	MinMembers int
	// Exclude holds labels: a member with one of them gets no shards.
	Exclude map[string]string
	// Budget limits the shards that may move per minute to rebalance the load.
	Budget int
}

const (
	// maxWindows limits the wait for a rebalance, in windows, while members keep changing.
	maxWindows = 5
	// firstWindow is the time for which no member must have joined before the first map, unless Window is less.
	firstWindow = time.Second
)

// RecheckDelay is the delay before planning is looked at once more after a plan, although the snapshot should show the
// outcome first.
const RecheckDelay = 100 * time.Millisecond

// WriteRetry is the policy for the delay after a map could not be written.
var WriteRetry = backoff.Policy{First: RecheckDelay, Last: 10 * time.Second}

// Planner is the state of one member as the planner. It is immutable; New makes the initial one.
type Planner struct {
	cfg            Settings
	members        []sharding.Member // when the last one was observed
	changedAt      time.Time         // when they last changed
	waitingSince   time.Time         // since when rebalancing waits; zero: it does not
	blockedByMoves bool              // all that could be rebalanced was; more may follow when moves are done
	spentMoves     float64           // part of the budget that was used, as of spentAt
	spentAt        time.Time
}

// New returns a planner that has not decided yet.
func New(cfg Settings) Planner { return Planner{cfg: cfg} }

// OffDuty returns the planner for the time while planning is not its duty. When it is again, the window begins
// anew; the spent budget is remembered.
func (p Planner) OffDuty() Planner {
	return Planner{cfg: p.cfg, spentMoves: p.spentMoves, spentAt: p.spentAt}
}

// Orders lists the actions that follow from a decision.
type Orders struct {
	// Plan is the map to write, if it moves any shard, over the map that was written at OverRevision (0: there is
	// none).
	Plan         sharding.Result
	OverRevision int64
	// Err is the reason why no plan over that map is possible.
	Err error
	// RecheckAfter is the time after which to look even if nothing changes; 0 is never.
	RecheckAfter time.Duration
}

// Decide decides once, on a snapshot, whether to write a map. The caller must have made sure that planning is its
// duty; when that ends, it continues with OffDuty.
func (p Planner) Decide(s *state.Snapshot, now time.Time) (Planner, Orders) {
	if s.ShardMap != nil && s.ShardMap.Err != nil {
		return p, Orders{OverRevision: s.ShardMap.ModRevision, Err: s.ShardMap.Err} // the owners of the shards are unknown
	}
	members := PlanMembers(s, p.cfg)
	if p.changedAt.IsZero() || !slices.Equal(members, p.members) {
		p.members, p.changedAt = members, now
		if p.waitingSince.IsZero() {
			p.waitingSince = now
		}
	}
	in := sharding.Input{Generation: s.Revision, Shards: ShardCount(s, p.cfg.Shards), Members: members, Done: s.MoveDone,
		Mode: sharding.Repair}
	if s.ShardMap == nil || !hasLivingOwner(s) { // or all owners are gone: the cluster is restarting
		if countTakers(members) < max(p.cfg.MinMembers, 1) {
			return p, Orders{}
		}
		if due := p.windowEnd(min(p.cfg.Window, firstWindow)); now.Before(due) {
			return p, Orders{RecheckAfter: due.Sub(now)}
		}
	}
	if s.ShardMap == nil {
		first, err := sharding.Plan(in)
		return p, Orders{Plan: first, Err: err}
	}
	in.Current, in.Shards = s.ShardMap.Map, s.ShardMap.Shards()
	in.Generation = max(in.Generation, in.Current.Generation()+1)
	if repair, err := sharding.Plan(in); err != nil || repair.MovedShards() > 0 {
		return p, Orders{Plan: repair, OverRevision: s.ShardMap.ModRevision, Err: err}
	}
	if p.waitingSince.IsZero() && !p.blockedByMoves {
		return p, Orders{}
	}
	if due := p.windowEnd(p.cfg.Window); now.Before(due) {
		return p, Orders{RecheckAfter: due.Sub(now)}
	}
	in.Mode = sharding.Rebalance
	level, err := sharding.Plan(in)
	if err != nil {
		return p, Orders{OverRevision: s.ShardMap.ModRevision, Err: err}
	}
	if level.MovedShards() == 0 {
		p.waitingSince, p.blockedByMoves = time.Time{}, anyMoveOpen(s)
		return p, Orders{}
	}
	p = p.refillBudget(now)
	if wait := p.budgetWait(level.Rebalanced); wait > 0 {
		return p, Orders{RecheckAfter: wait}
	}
	return p, Orders{Plan: level, OverRevision: s.ShardMap.ModRevision}
}

// windowEnd returns the time at which the members will have been the same for the window, or have been waited for
// long enough.
func (p Planner) windowEnd(window time.Duration) time.Time {
	due := p.changedAt.Add(window)
	if last := p.waitingSince.Add(maxWindows * window); !p.waitingSince.IsZero() && last.Before(due) {
		return last
	}
	return due
}

// PlanWritten returns the planner after etcd has accepted a plan.
func (p Planner) PlanWritten(plan sharding.Result, now time.Time) Planner {
	p = p.refillBudget(now)
	p.spentMoves += float64(plan.Rebalanced)
	return p
}

// refillBudget returns p with the budget refilled for the time since spentAt.
func (p Planner) refillBudget(now time.Time) Planner {
	p.spentMoves = max(0, p.spentMoves-now.Sub(p.spentAt).Minutes()*float64(p.cfg.Budget))
	p.spentAt = now
	return p
}

// budgetWait returns the time until n moves can be paid for. More moves than a whole budget cost a whole one.
func (p Planner) budgetWait(n int) time.Duration {
	over := p.spentMoves + float64(min(n, p.cfg.Budget)) - float64(p.cfg.Budget)
	if over <= 0 {
		return 0
	}
	return time.Duration(over / float64(p.cfg.Budget) * float64(time.Minute))
}

// PlanMembers returns the members among which the shards are assigned, in order of addresses. It includes all
// registered members, because their shards are not free. Members that are leaving, linger, are excluded by a
// label, or work with another number of shards get none.
func PlanMembers(s *state.Snapshot, cfg Settings) []sharding.Member {
	shards := ShardCount(s, cfg.Shards)
	members := make([]sharding.Member, len(s.Members))
	for i, m := range s.Members {
		members[i] = sharding.Member{Owner: sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}, Weight: m.Weight,
			Excluded: s.Lingers(m) || m.Draining || m.Shards == 0 || m.Shards != shards ||
				hasExcludedLabel(m.Labels, cfg.Exclude)}
	}
	return members
}

// ShardCount returns the number of shards: that of the map, or, before there is one, own, the planner's. If own is
// 0, it returns the number of the oldest member that takes part in the shards, 0 if none does.
func ShardCount(s *state.Snapshot, own int) int {
	if m := s.Map(); m != nil {
		return m.Shards()
	}
	shards, first := own, int64(0)
	for _, m := range s.Members {
		if own == 0 && m.Shards > 0 && (first == 0 || m.Incarnation < first) {
			shards, first = m.Shards, m.Incarnation
		}
	}
	return shards
}

func hasExcludedLabel(labels, exclude map[string]string) bool {
	for name, value := range exclude {
		if v, ok := labels[name]; ok && v == value {
			return true
		}
	}
	return false
}

// anyMoveOpen reports whether a shard stays where it is until its move is done. More can be rebalanced then.
func anyMoveOpen(s *state.Snapshot) bool {
	for move := range s.ShardMap.Moves() {
		if !s.MoveDone(move) {
			return true
		}
	}
	return false
}

// hasLivingOwner reports whether a shard has a living owner.
func hasLivingOwner(s *state.Snapshot) bool {
	for _, load := range s.ShardMap.Loads() {
		if m := s.Member(load.Owner.Address); m != nil && m.Incarnation == load.Owner.Incarnation {
			return true
		}
	}
	return false
}

func countTakers(members []sharding.Member) int {
	n := 0
	for _, m := range members {
		if !m.Excluded {
			n++
		}
	}
	return n
}
