package sharding

import (
	"cmp"
	"slices"
)

// shardAction is the effect of a plan on a shard.
type shardAction uint8

const (
	stays      shardAction = iota
	pinned                 // stays because its move is open
	assigned               // had no living owner
	drained                // leaves an excluded member
	rebalanced             // moves to even out the load
	actionCount
)

// planDraft is a plan in progress. It refers to members and takers by index.
type planDraft struct {
	input    Input
	members  []Member
	takers   []int
	holder   []int32       // by shard: the member that has it, or none
	action   []shardAction // by shard
	moveOpen []bool        // by shard: its move is not done
	load     []int         // by member: number of shards that stay
	pins     []int         // by member: number of those that are pinned
	counts   [actionCount]int
}

func newDraft(in Input, members []Member) *planDraft {
	d := &planDraft{input: in, members: members, holder: make([]int32, in.Shards), action: make([]shardAction, in.Shards),
		moveOpen: make([]bool, in.Shards),
		load:     make([]int, len(members)), pins: make([]int, len(members))}
	for i, m := range members {
		if !m.Excluded {
			d.takers = append(d.takers, i)
		}
	}
	var living []int32 // by owner of the current map: its member, or none
	if in.Current != nil {
		for _, o := range in.Current.owners {
			living = append(living, d.memberIndex(o))
		}
		for _, move := range in.Current.moves {
			d.moveOpen[move.Shard] = d.memberIndex(move.From) != noIndex && (in.Done == nil || !in.Done(move))
		}
	}
	for shard := range in.Shards {
		d.holder[shard] = noIndex
		if in.Current != nil && in.Current.cells[shard].owner != noIndex {
			d.holder[shard] = living[in.Current.cells[shard].owner]
		}
		d.decideAction(shard)
	}
	return d
}

func (d *planDraft) memberIndex(o Owner) int32 {
	i, found := slices.BinarySearchFunc(d.members, o, func(m Member, o Owner) int { return m.Compare(o) })
	if !found {
		return noIndex
	}
	return int32(i)
}

// decideAction determines the action that a shard needs regardless of the load.
func (d *planDraft) decideAction(shard int) {
	holder, f := d.holder[shard], stays
	switch {
	case holder == noIndex:
		f = assigned
	case d.moveOpen[shard]:
		f = pinned
		d.pins[holder]++
		d.load[holder]++
	case d.members[holder].Excluded:
		f = drained
	default:
		d.load[holder]++
	}
	d.action[shard] = f
	d.counts[f]++
}

// computeQuotas returns the quota of each member. The quota of an excluded member is the number of shards pinned to
// it.
func (d *planDraft) computeQuotas() []int {
	room, claims := d.input.Shards, make([]quotaClaim, len(d.takers))
	quotas := slices.Clone(d.pins)
	for i, m := range d.members {
		if m.Excluded {
			room -= d.pins[i]
		}
	}
	for i, t := range d.takers {
		claims[i] = quotaClaim{weight: int64(d.members[t].Weight), pins: int64(d.pins[t]), load: int64(d.load[t])}
	}
	for i, q := range shareByWeight(int64(room), claims) {
		quotas[d.takers[i]] = int(q)
	}
	return quotas
}

// markRebalanced takes the shards above its quota from each member: those it received last, and of these the last
// ones by number. So when a member returns, the others give back the shards that they had taken over. Few
// shards ever move, and ranges stay long.
func (d *planDraft) markRebalanced(quotas []int) {
	var loose []int
	for shard, f := range d.action {
		if h := d.holder[shard]; f == stays && d.load[h] > quotas[h] {
			loose = append(loose, shard)
		}
	}
	slices.SortFunc(loose, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.input.Current.Epoch(b), d.input.Current.Epoch(a)), cmp.Compare(b, a))
	})
	for _, shard := range loose {
		if h := d.holder[shard]; d.load[h] > quotas[h] {
			d.load[h]--
			d.action[shard] = rebalanced
			d.counts[rebalanced]++
		}
	}
}

// missingShards returns the number of shards by which each member is below its quota.
func (d *planDraft) missingShards(quotas []int) []int {
	missing := make([]int, len(quotas))
	for i, q := range quotas {
		missing[i] = max(q-d.load[i], 0)
	}
	return missing
}

// assignMoving assigns the moving shards and returns the next map. Each member receives its number of shards in one
// contiguous pass.
func (d *planDraft) assignMoving(gets []int) *Map {
	owners, cells := make([]Owner, len(d.members)), make([]shardCell, d.input.Shards)
	for i, m := range d.members {
		owners[i] = m.Owner
	}
	var moves []Move
	next := 0
	for shard, f := range d.action {
		if f == stays || f == pinned {
			cells[shard] = shardCell{epoch: d.input.Current.Epoch(shard), owner: d.holder[shard]}
		} else {
			for gets[next] == 0 {
				next++
			}
			gets[next]--
			cells[shard] = shardCell{epoch: d.input.Generation, owner: int32(next)}
		}
		switch {
		case d.moveOpen[shard]:
			inherited, _ := d.input.Current.Move(shard)
			moves = append(moves, inherited)
		case f == drained || f == rebalanced:
			moves = append(moves, Move{Shard: shard, From: d.members[d.holder[shard]].Owner, Since: d.input.Generation})
		}
	}
	m := newMap(d.input.Generation, owners, cells, moves)
	if d.input.Current != nil {
		m.rest = d.input.Current.rest
	}
	return m
}
