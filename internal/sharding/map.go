package sharding

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Owner is a member at its incarnation. A new incarnation at an old address is
// somebody else, and owns nothing until a map names it.
type Owner struct {
	Address     string
	Incarnation int64
}

// Compare orders owners by address, then incarnation.
func (o Owner) Compare(other Owner) int {
	return cmp.Or(strings.Compare(o.Address, other.Address), cmp.Compare(o.Incarnation, other.Incarnation))
}

// canOwn reports whether an owner comes back from JSON as what it was.
func (o Owner) canOwn() bool {
	return o.Address != "" && utf8.ValidString(o.Address) && o.Incarnation > 0
}

// Move is a handoff that is open: the owner of Shard may serve it only once
// From has released it, which [Move.Done] tells. From and the owner can be the
// same, when a shard comes back before it was released: then the owner goes on
// as soon as it has settled that with itself.
type Move struct {
	Shard int
	From  Owner
	// Since is the generation from which on From knows that it has to release.
	Since int64
}

// Map says who owns each shard. It is made by [Plan] or [Decode] and never
// changes. Asking about one shard takes no lock, no search and no allocation;
// a shard below 0, or at Shards or above, panics like an index out of range.
type Map struct {
	generation int64
	owners     []Owner // each has a shard; in order
	cells      []cell  // by shard
	moves      []Move  // by shard
}

type cell struct {
	epoch int64
	owner int32 // index in owners, or none
	move  int32 // index in moves, or none
}

const none = -1

// Shards is how many shards there are.
func (m *Map) Shards() int { return len(m.cells) }

// Generation is the version of the map.
func (m *Map) Generation() int64 { return m.generation }

// Owner is who owns a shard, whether it may serve already or not; false if
// nobody does. An owner may be gone: a map is not changed by a crash, but by
// the plan that repairs it.
func (m *Map) Owner(shard int) (Owner, bool) {
	if i := m.cells[shard].owner; i != none {
		return m.owners[i], true
	}
	return Owner{}, false
}

// Epoch is the generation that gave the shard to its owner, and 0 if it has none.
func (m *Map) Epoch(shard int) int64 { return m.cells[shard].epoch }

// Move is the open move of a shard, and false if it is settled. A move that is
// done stays in the map until the next plan.
func (m *Map) Move(shard int) (Move, bool) {
	if i := m.cells[shard].move; i != none {
		return m.moves[i], true
	}
	return Move{}, false
}

// Moves yields all open moves in the order of shards.
func (m *Map) Moves() iter.Seq[Move] { return slices.Values(m.moves) }

// NotBefore is m as it counts when its key was created at revision: no shard's epoch, nor
// the generation, is less. Where no map is, etcd cannot tell a plan of now from one that
// was made before the last map was deleted; so that epochs keep growing, the first map of
// a key gets them from etcd.
func (m *Map) NotBefore(revision int64) *Map {
	if !slices.ContainsFunc(m.cells, func(c cell) bool { return c.before(revision) }) && m.generation >= revision {
		return m
	}
	later := *m
	later.generation = max(m.generation, revision)
	later.cells = slices.Clone(m.cells)
	for i := range later.cells {
		if c := &later.cells[i]; c.before(revision) {
			c.epoch = revision
		}
	}
	return &later
}

// before reports whether a shard was given to its owner before.
func (c cell) before(revision int64) bool { return c.owner != none && c.epoch < revision }

// Load is how many shards an owner has.
type Load struct {
	Owner  Owner
	Shards int
}

// Loads is how many shards each owner has, in the order of owners. Who has
// none is not in it.
func (m *Map) Loads() []Load {
	loads := make([]Load, len(m.owners))
	for i, o := range m.owners {
		loads[i].Owner = o
	}
	for _, c := range m.cells {
		if c.owner != none {
			loads[c.owner].Shards++
		}
	}
	return loads
}

// newMap keeps cells, which index owners, and moves, which are in the order of
// shards. Owners may be in any order, more than once, and without a shard: equal
// maps come out equal in every part.
func newMap(generation int64, owners []Owner, cells []cell, moves []Move) *Map {
	m := &Map{generation: generation, cells: cells, moves: moves}
	used := make([]bool, len(owners))
	for _, c := range cells {
		if c.owner != none {
			used[c.owner] = true
		}
	}
	for i, o := range owners {
		if used[i] {
			m.owners = append(m.owners, o)
		}
	}
	slices.SortFunc(m.owners, Owner.Compare)
	m.owners = slices.Compact(m.owners)
	rank := make([]int32, len(owners))
	for i, o := range owners {
		at, _ := slices.BinarySearchFunc(m.owners, o, Owner.Compare)
		rank[i] = int32(at)
	}
	for i := range cells {
		cells[i].move = none
		if cells[i].owner != none {
			cells[i].owner = rank[cells[i].owner]
		}
	}
	for i, move := range moves {
		cells[move.Shard].move = int32(i)
	}
	return m
}
