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
	// windows limits the wait for a rebalance, in windows, while members keep changing.
	windows = 5
	// firstWindow is the time for which no member must have joined before the first map, unless Window is less.
	firstWindow = time.Second
)

// Again is the delay before planning is looked at once more after a plan, although the snapshot should show the
// outcome first.
const Again = 100 * time.Millisecond

// Retry is the policy for the delay after a map could not be written.
var Retry = backoff.Policy{First: Again, Last: 10 * time.Second}

// Planner is the state of one member as the planner. It is immutable; New makes the initial one.
type Planner struct {
	cfg     Settings
	members []sharding.Member // when the last one was observed
	changed time.Time         // when they last changed
	waiting time.Time         // since when rebalancing waits; zero: it does not
	pinned  bool              // all that could be rebalanced was; more may follow when moves are done
	spent   float64           // part of the budget that was used, as of at
	at      time.Time
}

// New returns a planner that has not looked yet.
func New(cfg Settings) Planner { return Planner{cfg: cfg} }

// Off returns the planner for the time while planning is not its duty. When it is again, the window begins
// anew; the spent budget is remembered.
func (p Planner) Off() Planner { return Planner{cfg: p.cfg, spent: p.spent, at: p.at} }

// Orders lists the actions that follow from a look.
type Orders struct {
	// Plan is the map to write, if it moves any shard, over the map that was written at Over (0: there is
	// none).
	Plan sharding.Result
	Over int64
	// Err is the reason why no plan over that map is possible.
	Err error
	// Again is the time after which to look even if nothing changes; 0 is never.
	Again time.Duration
}

// Look decides once, on a snapshot, whether to write a map. The caller must have made sure that planning is its
// duty; when that ends, it continues with Off.
func (p Planner) Look(s *state.Snapshot, now time.Time) (Planner, Orders) {
	if s.ShardMap != nil && s.ShardMap.Err != nil {
		return p, Orders{Over: s.ShardMap.ModRevision, Err: s.ShardMap.Err} // the owners of the shards are unknown
	}
	members := Members(s, p.cfg)
	if p.changed.IsZero() || !slices.Equal(members, p.members) {
		p.members, p.changed = members, now
		if p.waiting.IsZero() {
			p.waiting = now
		}
	}
	in := sharding.Input{Generation: s.Revision, Shards: Count(s, p.cfg.Shards), Members: members, Done: s.MoveDone,
		Mode: sharding.Repair}
	if s.ShardMap == nil || !owned(s) { // or all owners are gone: the cluster is restarting
		if takers(members) < max(p.cfg.MinMembers, 1) {
			return p, Orders{}
		}
		if due := p.due(min(p.cfg.Window, firstWindow)); now.Before(due) {
			return p, Orders{Again: due.Sub(now)}
		}
	}
	if s.ShardMap == nil {
		first, err := sharding.Plan(in)
		return p, Orders{Plan: first, Err: err}
	}
	in.Current, in.Shards = s.ShardMap.Map, s.ShardMap.Shards()
	in.Generation = max(in.Generation, in.Current.Generation()+1)
	if repair, err := sharding.Plan(in); err != nil || repair.Moved() > 0 {
		return p, Orders{Plan: repair, Over: s.ShardMap.ModRevision, Err: err}
	}
	if p.waiting.IsZero() && !p.pinned {
		return p, Orders{}
	}
	if due := p.due(p.cfg.Window); now.Before(due) {
		return p, Orders{Again: due.Sub(now)}
	}
	in.Mode = sharding.Rebalance
	level, err := sharding.Plan(in)
	if err != nil {
		return p, Orders{Over: s.ShardMap.ModRevision, Err: err}
	}
	if level.Moved() == 0 {
		p.waiting, p.pinned = time.Time{}, pinned(s)
		return p, Orders{}
	}
	p = p.refilled(now)
	if wait := p.afford(level.Rebalanced); wait > 0 {
		return p, Orders{Again: wait}
	}
	return p, Orders{Plan: level, Over: s.ShardMap.ModRevision}
}

// due returns the time at which the members will have been the same for the window, or have been waited for
// long enough.
func (p Planner) due(window time.Duration) time.Time {
	due := p.changed.Add(window)
	if last := p.waiting.Add(windows * window); !p.waiting.IsZero() && last.Before(due) {
		return last
	}
	return due
}

// Wrote returns the planner after etcd has accepted a plan.
func (p Planner) Wrote(plan sharding.Result, now time.Time) Planner {
	p = p.refilled(now)
	p.spent += float64(plan.Rebalanced)
	return p
}

// refilled returns p with the budget refilled for the time since at.
func (p Planner) refilled(now time.Time) Planner {
	p.spent = max(0, p.spent-now.Sub(p.at).Minutes()*float64(p.cfg.Budget))
	p.at = now
	return p
}

// afford returns the time until n moves can be paid for. More moves than a whole budget cost a whole one.
func (p Planner) afford(n int) time.Duration {
	over := p.spent + float64(min(n, p.cfg.Budget)) - float64(p.cfg.Budget)
	if over <= 0 {
		return 0
	}
	return time.Duration(over / float64(p.cfg.Budget) * float64(time.Minute))
}

// Members returns the members among which the shards are assigned, in order of addresses. It includes all
// registered members, because their shards are not free. Members that are leaving, linger, are excluded by a
// label, or work with another number of shards get none.
func Members(s *state.Snapshot, cfg Settings) []sharding.Member {
	shards := Count(s, cfg.Shards)
	members := make([]sharding.Member, len(s.Members))
	for i, m := range s.Members {
		members[i] = sharding.Member{Owner: sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}, Weight: m.Weight,
			Excluded: s.Lingers(m) || m.Draining || m.Shards == 0 || m.Shards != shards || excluded(m.Labels, cfg.Exclude)}
	}
	return members
}

// Count returns the number of shards: that of the map, or, before there is one, own, the planner's. If own is
// 0, it returns the number of the oldest member that takes part in the shards, 0 if none does.
func Count(s *state.Snapshot, own int) int {
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

func excluded(labels, exclude map[string]string) bool {
	for name, value := range exclude {
		if v, ok := labels[name]; ok && v == value {
			return true
		}
	}
	return false
}

// pinned reports whether a shard stays where it is until its move is done. More can be rebalanced then.
func pinned(s *state.Snapshot) bool {
	for move := range s.ShardMap.Moves() {
		if !s.MoveDone(move) {
			return true
		}
	}
	return false
}

// owned reports whether a shard has a living owner.
func owned(s *state.Snapshot) bool {
	for _, load := range s.ShardMap.Loads() {
		if m := s.Member(load.Owner.Address); m != nil && m.Incarnation == load.Owner.Incarnation {
			return true
		}
	}
	return false
}

func takers(members []sharding.Member) int {
	n := 0
	for _, m := range members {
		if !m.Excluded {
			n++
		}
	}
	return n
}
