// Package shardplan decides when the shards are planned anew, as values: no clock, no
// goroutine, no I/O. How they are assigned is package sharding's; package
// consensus writes the map.
//
//   - What must move, moves at once: shards without an owner, of members that are gone, and
//     of members that leave.
//   - What may move, to rebalance the load, waits until the members have been the same for a
//     window, so that many who join together are dealt with once; and it is paid for from
//     a budget, so that a member that comes and goes cannot keep the others busy.
//   - The first map waits until there are enough members, and nobody has come for a moment: nodes
//     that are started together would else leave the first one with all shards, to give most away.
//
// Not promised: that two planners agree on when. They agree on what, and etcd lets only
// one of them write over the map that both have seen.
package shardplan

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// Settings are what stays the same for one planner.
type Settings struct {
	// Shards is how many there are; 0: as many as the others work with.
	Shards int
	// Window is for how long the members must have been the same before load is rebalanced.
	Window time.Duration
	// MinMembers is how many must be there for the first map.
	MinMembers int
	// Exclude are labels: a member that carries one of them gets no shards.
	Exclude map[string]string
	// Budget is how many shards a minute may move to rebalance the load.
	Budget int
}

const (
	// windows is how many windows rebalancing waits at most where members keep changing.
	windows = 5
	// firstWindow is for how long nobody must have come before the shards are assigned the first
	// time, unless Window is less.
	firstWindow = time.Second
)

// Again is how long to wait before what was planned is looked at once more, though the snapshot
// should show first what came of it.
const Again = 100 * time.Millisecond

// Retry is how long to wait after a map that could not be written.
var Retry = backoff.Policy{First: Again, Last: 10 * time.Second}

// Planner is one member's part as the planner. It is immutable; New makes the one that
// has seen nothing.
type Planner struct {
	cfg     Settings
	members []sharding.Member // as last seen
	changed time.Time         // when they last did
	waiting time.Time         // since when rebalancing waits; zero: it does not
	pinned  bool              // what could be rebalanced was; there may be more when moves are done
	spent   float64           // of the budget, as of at
	at      time.Time
}

// New is a planner that has not looked yet.
func New(cfg Settings) Planner { return Planner{cfg: cfg} }

// Off is the planner while planning is not its duty: the window begins anew when it is
// again, and what was spent of the budget is not forgotten.
func (p Planner) Off() Planner { return Planner{cfg: p.cfg, spent: p.spent, at: p.at} }

// Orders are what follows from a look.
type Orders struct {
	// Plan is what to write, if it moves anything, over the map that was written at Over
	// (0: there is none).
	Plan sharding.Result
	Over int64
	// Err is why there cannot be a plan over that map.
	Err error
	// Again is after which time to look even if nothing happens; 0 is never.
	Again time.Duration
}

// Look decides once, at the snapshot, whether to write a map. The caller has made sure
// that planning is its duty; when that ends, it goes on with Off.
func (p Planner) Look(s *state.Snapshot, now time.Time) (Planner, Orders) {
	if s.ShardMap != nil && s.ShardMap.Err != nil {
		return p, Orders{Over: s.ShardMap.ModRevision, Err: s.ShardMap.Err} // nobody knows who serves what
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
	if s.ShardMap == nil || !owned(s) { // or all were gone: the cluster starts again
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

// due is when the members have been the same for the window, or were waited for long enough.
func (p Planner) due(window time.Duration) time.Time {
	due := p.changed.Add(window)
	if last := p.waiting.Add(windows * window); !p.waiting.IsZero() && last.Before(due) {
		return last
	}
	return due
}

// Wrote is the planner after etcd has accepted a plan.
func (p Planner) Wrote(plan sharding.Result, now time.Time) Planner {
	p = p.refilled(now)
	p.spent += float64(plan.Rebalanced)
	return p
}

// refilled is p with what the time since it last spent has given back.
func (p Planner) refilled(now time.Time) Planner {
	p.spent = max(0, p.spent-now.Sub(p.at).Minutes()*float64(p.cfg.Budget))
	p.at = now
	return p
}

// afford is how long to wait until n moves can be paid for. What is more than a whole
// budget is paid for by a whole one.
func (p Planner) afford(n int) time.Duration {
	over := p.spent + float64(min(n, p.cfg.Budget)) - float64(p.cfg.Budget)
	if over <= 0 {
		return 0
	}
	return time.Duration(over / float64(p.cfg.Budget) * float64(time.Minute))
}

// Members are those among whom the shards are assigned, in order of addresses. All
// registered ones are, for what one of them holds is not free; those that are leaving,
// linger, are excluded by a label, or do not work with as many shards, get none.
func Members(s *state.Snapshot, cfg Settings) []sharding.Member {
	shards := Count(s, cfg.Shards)
	members := make([]sharding.Member, len(s.Members))
	for i, m := range s.Members {
		members[i] = sharding.Member{Owner: sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}, Weight: m.Weight,
			Excluded: s.Lingers(m) || m.Draining || m.Shards == 0 || m.Shards != shards || excluded(m.Labels, cfg.Exclude)}
	}
	return members
}

// Count is how many shards there are: as many as the map has; before there is one, as the
// planner works with (own), or if it takes no part, the member that was there first of those that do.
// 0 where none does.
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

// pinned reports whether a shard stays where it is until its move is done. There may be
// more to rebalance then.
func pinned(s *state.Snapshot) bool {
	for move := range s.ShardMap.Moves() {
		if !s.MoveDone(move) {
			return true
		}
	}
	return false
}

// owned reports whether a shard has an owner that lives.
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
