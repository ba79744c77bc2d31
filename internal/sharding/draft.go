package sharding

import (
	"cmp"
	"slices"
)

// action is what a plan does with a shard.
type action uint8

const (
	stays      action = iota
	pinned            // stays, because its move is open
	assigned          // no owner alive
	drained           // off an excluded member
	rebalanced        // for an even load
	actions
)

// draft is a plan in the making. Members and takers are indices.
type draft struct {
	in      Input
	members []Member
	takers  []int
	holder  []int32  // by shard: the member that has it, or none
	action  []action // by shard
	open    []bool   // by shard: its move is not done
	load    []int    // by member: shards that stay
	pins    []int    // by member: those of them that are pinned
	count   [actions]int
}

func newDraft(in Input, members []Member) *draft {
	d := &draft{in: in, members: members, holder: make([]int32, in.Shards), action: make([]action, in.Shards),
		open: make([]bool, in.Shards),
		load: make([]int, len(members)), pins: make([]int, len(members))}
	for i, m := range members {
		if !m.Excluded {
			d.takers = append(d.takers, i)
		}
	}
	var living []int32 // by owner of the current map
	if in.Current != nil {
		for _, o := range in.Current.owners {
			living = append(living, d.find(o))
		}
		for _, move := range in.Current.moves {
			d.open[move.Shard] = d.find(move.From) != none && (in.Done == nil || !in.Done(move))
		}
	}
	for shard := range in.Shards {
		d.holder[shard] = none
		if in.Current != nil && in.Current.cells[shard].owner != none {
			d.holder[shard] = living[in.Current.cells[shard].owner]
		}
		d.decide(shard)
	}
	return d
}

func (d *draft) find(o Owner) int32 {
	i, found := slices.BinarySearchFunc(d.members, o, func(m Member, o Owner) int { return m.Compare(o) })
	if !found {
		return none
	}
	return int32(i)
}

// decide is what must be, whatever the load.
func (d *draft) decide(shard int) {
	holder, f := d.holder[shard], stays
	switch {
	case holder == none:
		f = assigned
	case d.open[shard]:
		f = pinned
		d.pins[holder]++
		d.load[holder]++
	case d.members[holder].Excluded:
		f = drained
	default:
		d.load[holder]++
	}
	d.action[shard] = f
	d.count[f]++
}

// quotas are by member; those of excluded members are what is pinned to them.
func (d *draft) quotas() []int {
	room, claims := d.in.Shards, make([]claim, len(d.takers))
	quotas := slices.Clone(d.pins)
	for i, m := range d.members {
		if m.Excluded {
			room -= d.pins[i]
		}
	}
	for i, t := range d.takers {
		claims[i] = claim{weight: int64(d.members[t].Weight), pins: int64(d.pins[t]), load: int64(d.load[t])}
	}
	for i, q := range share(int64(room), claims) {
		quotas[d.takers[i]] = int(q)
	}
	return quotas
}

// rebalance takes from each member what it has above its quota: what it got last,
// and of that the last shards. So when a member comes back, the others return
// what they had taken over: few shards ever move, and runs stay long.
func (d *draft) rebalance(quotas []int) {
	var loose []int
	for shard, f := range d.action {
		if h := d.holder[shard]; f == stays && d.load[h] > quotas[h] {
			loose = append(loose, shard)
		}
	}
	slices.SortFunc(loose, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.in.Current.Epoch(b), d.in.Current.Epoch(a)), cmp.Compare(b, a))
	})
	for _, shard := range loose {
		if h := d.holder[shard]; d.load[h] > quotas[h] {
			d.load[h]--
			d.action[shard] = rebalanced
			d.count[rebalanced]++
		}
	}
}

// missing is how far each member is below its quota.
func (d *draft) missing(quotas []int) []int {
	missing := make([]int, len(quotas))
	for i, q := range quotas {
		missing[i] = max(q-d.load[i], 0)
	}
	return missing
}

// place gives each member its number of the shards that move, in one go, and
// writes the next map.
func (d *draft) place(gets []int) *Map {
	owners, cells := make([]Owner, len(d.members)), make([]cell, d.in.Shards)
	for i, m := range d.members {
		owners[i] = m.Owner
	}
	var moves []Move
	next := 0
	for shard, f := range d.action {
		if f == stays || f == pinned {
			cells[shard] = cell{epoch: d.in.Current.Epoch(shard), owner: d.holder[shard]}
		} else {
			for gets[next] == 0 {
				next++
			}
			gets[next]--
			cells[shard] = cell{epoch: d.in.Generation, owner: int32(next)}
		}
		switch {
		case d.open[shard]:
			inherited, _ := d.in.Current.Move(shard)
			moves = append(moves, inherited)
		case f == drained || f == rebalanced:
			moves = append(moves, Move{Shard: shard, From: d.members[d.holder[shard]].Owner, Since: d.in.Generation})
		}
	}
	return newMap(d.in.Generation, owners, cells, moves)
}
