package sharding

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goverse/goverse/internal/state/format"
)

// Owner is a member at its incarnation. A new incarnation at an old address is another owner, and owns nothing
// until a map names it.
type Owner struct {
	Address     string
	Incarnation int64
}

// Compare orders owners by address, then incarnation.
func (o Owner) Compare(other Owner) int {
	return cmp.Or(strings.Compare(o.Address, other.Address), cmp.Compare(o.Incarnation, other.Incarnation))
}

// isEncodable reports whether JSON preserves the owner.
func (o Owner) isEncodable() bool {
	return o.Address != "" && utf8.ValidString(o.Address) && o.Incarnation > 0
}

// Move is an open handoff: the owner of Shard may serve it only after From has released it, which [Move.Done]
// reports. From and the owner are the same if a shard comes back before it was released. The owner then
// continues as soon as it has released the shard itself.
type Move struct {
	Shard int
	From  Owner
	// Since is the generation of the first map that requires From to release the shard.
	Since int64
}

// Map assigns each shard to its owner. It is made by [Plan] or [DecodeMap] and never changes. Queries about one
// shard take no lock, no search and no allocation. They panic, like an index out of range, for a shard below 0,
// or at Shards or above.
type Map struct {
	generation int64
	owners     []Owner     // sorted; each has a shard
	cells      []shardCell // by shard
	moves      []Move      // by shard
	rest       format.Rest // fields that this release does not know; they are stored again
}

type shardCell struct {
	epoch int64
	owner int32 // index in owners, or none
	move  int32 // index in moves, or none
}

const noIndex = -1

// Shards returns the number of shards.
func (m *Map) Shards() int { return len(m.cells) }

// Generation returns the version of the map.
func (m *Map) Generation() int64 { return m.generation }

// Owner returns the owner of a shard, whether it may serve already or not; false if there is none. The owner
// may be gone: a crash does not change a map, only the plan that repairs it does.
func (m *Map) Owner(shard int) (Owner, bool) {
	if i := m.cells[shard].owner; i != noIndex {
		return m.owners[i], true
	}
	return Owner{}, false
}

// Epoch returns the generation that assigned the shard to its owner, 0 if it has none.
func (m *Map) Epoch(shard int) int64 { return m.cells[shard].epoch }

// Move returns the open move of a shard, and false if there is none. A move that is done stays in the map until
// the next plan.
func (m *Map) Move(shard int) (Move, bool) {
	if i := m.cells[shard].move; i != noIndex {
		return m.moves[i], true
	}
	return Move{}, false
}

// Moves yields all open moves, in the order of shards.
func (m *Map) Moves() iter.Seq[Move] { return slices.Values(m.moves) }

// NotBefore returns m as it counts if its key was created at revision: neither the generation nor the epoch of
// any shard is less than revision. If there is no map, etcd cannot distinguish a plan of now from one that was
// made before the last map was deleted. So that epochs keep growing, the first map of a key takes them from
// etcd.
func (m *Map) NotBefore(revision int64) *Map {
	if !slices.ContainsFunc(m.cells, func(c shardCell) bool { return c.assignedBefore(revision) }) &&
		m.generation >= revision {
		return m
	}
	later := *m
	later.generation = max(m.generation, revision)
	later.cells = slices.Clone(m.cells)
	for i := range later.cells {
		if c := &later.cells[i]; c.assignedBefore(revision) {
			c.epoch = revision
		}
	}
	return &later
}

// assignedBefore reports whether the shard was assigned to its owner before revision.
func (c shardCell) assignedBefore(revision int64) bool {
	return c.owner != noIndex && c.epoch < revision
}

// Load is the number of shards of an owner.
type Load struct {
	Owner  Owner
	Shards int
}

// Loads returns the load of each owner, in the order of owners. Members without shards are left out.
func (m *Map) Loads() []Load {
	loads := make([]Load, len(m.owners))
	for i, o := range m.owners {
		loads[i].Owner = o
	}
	for _, c := range m.cells {
		if c.owner != noIndex {
			loads[c.owner].Shards++
		}
	}
	return loads
}

// newMap makes a map from cells, which hold indices into owners, and moves, which are in the order of shards.
// It keeps both slices. Owners may be in any order, repeated, and without a shard. Equal maps have equal
// representations.
func newMap(generation int64, owners []Owner, cells []shardCell, moves []Move) *Map {
	m := &Map{generation: generation, cells: cells, moves: moves}
	used := make([]bool, len(owners))
	for _, c := range cells {
		if c.owner != noIndex {
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
		cells[i].move = noIndex
		if cells[i].owner != noIndex {
			cells[i].owner = rank[cells[i].owner]
		}
	}
	for i, move := range moves {
		cells[move.Shard].move = int32(i)
	}
	return m
}
