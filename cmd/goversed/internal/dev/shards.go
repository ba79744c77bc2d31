package dev

import (
	"strings"

	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
)

// shardChanges returns the events that concern shards between two snapshots.
func shardChanges(before, after *state.Snapshot) []event {
	now, err := shardview.New(after)
	if err != nil {
		return nil
	}
	was, _ := shardview.New(before) // empty without a map
	var out []event
	if was.Generation != now.Generation {
		if why := describeAssignment(before, after); why != "" {
			out = append(out, event{kind: shardsAssigned, reason: why})
		}
	}
	if now.MayServe() == now.Count && (was.MayServe() != was.Count || was.Count == 0) {
		out = append(out, event{kind: shardsServed, shards: now.Count})
	}
	return out
}

// describeAssignment describes the shards that the map of after assigns or moves, and to which nodes.
func describeAssignment(before, after *state.Snapshot) string {
	m, old := after.Map(), before.Map()
	var given, moved shardMoves
	for shard := range m.Shards() {
		if m.Epoch(shard) != m.Generation() {
			continue
		}
		to, _ := m.Owner(shard)
		if move, open := m.Move(shard); open && move.Since == m.Generation() {
			moved.addMove(move.From.Address, to.Address)
			continue
		}
		from := ""
		if old != nil && old.Shards() == m.Shards() {
			o, _ := old.Owner(shard)
			from = o.Address
		}
		given.addMove(from, to.Address)
	}
	var parts []string
	if given.shards > 0 {
		of := ""
		if len(given.from) > 0 {
			of = " of " + given.from.describe()
		}
		parts = append(parts, formatCount(given.shards, "shard", "shards")+of+" assigned to "+given.to.describe())
	}
	if moved.shards > 0 {
		parts = append(parts,
			formatCount(moved.shards, "shard moves", "shards move")+" from "+moved.from.describe()+" to "+moved.to.describe())
	}
	return strings.Join(parts, ", ")
}

// shardMoves counts the shards that are assigned, or moved, in one new map.
type shardMoves struct {
	shards   int
	from, to addressSet
}

func (t *shardMoves) addMove(from, to string) {
	t.shards++
	t.from.add(from)
	t.to.add(to)
}

type addressSet map[string]bool

func (a *addressSet) add(address string) {
	if address == "" {
		return
	}
	if *a == nil {
		*a = addressSet{}
	}
	(*a)[address] = true
}

// describe returns the only address, or the number of addresses.
func (a addressSet) describe() string {
	for address := range a {
		if len(a) == 1 {
			return address
		}
	}
	return formatCount(len(a), "node", "nodes")
}
