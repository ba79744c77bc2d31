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
		if why := assignment(before, after); why != "" {
			out = append(out, event{what: dealt, why: why})
		}
	}
	if now.MayServe() == now.Count && (was.MayServe() != was.Count || was.Count == 0) {
		out = append(out, event{what: served, shards: now.Count})
	}
	return out
}

// assignment describes the shards that the map of after assigns or moves, and to which nodes.
func assignment(before, after *state.Snapshot) string {
	m, old := after.Map(), before.Map()
	var given, moved transfer
	for shard := range m.Shards() {
		if m.Epoch(shard) != m.Generation() {
			continue
		}
		to, _ := m.Owner(shard)
		if move, open := m.Move(shard); open && move.Since == m.Generation() {
			moved.add(move.From.Address, to.Address)
			continue
		}
		from := ""
		if old != nil && old.Shards() == m.Shards() {
			o, _ := old.Owner(shard)
			from = o.Address
		}
		given.add(from, to.Address)
	}
	var parts []string
	if given.shards > 0 {
		of := ""
		if len(given.from) > 0 {
			of = " of " + given.from.names()
		}
		parts = append(parts, count(given.shards, "shard", "shards")+of+" assigned to "+given.to.names())
	}
	if moved.shards > 0 {
		parts = append(parts,
			count(moved.shards, "shard moves", "shards move")+" from "+moved.from.names()+" to "+moved.to.names())
	}
	return strings.Join(parts, ", ")
}

// transfer counts the shards that are assigned, or moved, in one new map.
type transfer struct {
	shards   int
	from, to addresses
}

func (t *transfer) add(from, to string) {
	t.shards++
	t.from.add(from)
	t.to.add(to)
}

type addresses map[string]bool

func (a *addresses) add(address string) {
	if address == "" {
		return
	}
	if *a == nil {
		*a = addresses{}
	}
	(*a)[address] = true
}

// names returns the only address, or the number of addresses.
func (a addresses) names() string {
	for address := range a {
		if len(a) == 1 {
			return address
		}
	}
	return count(len(a), "node", "nodes")
}
