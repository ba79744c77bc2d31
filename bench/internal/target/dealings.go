package target

import (
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// dealings are the writes to the shards' keys in some time, read from a bare watch and not
// from who made them.
type dealings struct {
	// maps are the shard maps that were written, and moved how many shards they gave to
	// another owner, all together.
	maps, moved int
	// reports are those that were written about what was released, and losing is how many
	// there have to be: for each map one of every member that it takes shards from. further
	// are those that a member made about the same map as its last one: batches of stragglers.
	reports, further, losing int
	// last is the newest map.
	last *sharding.Map
}

// readDealings reads events in their order; before is the map at their beginning, nil if
// there was none.
func readDealings(keys state.Keys, before *sharding.Map, events []fleet.Sighting) (dealings, error) {
	d := dealings{last: before}
	about := map[string]int64{} // generation of a member's newest report
	for _, e := range events {
		key := keys.Parse(string(e.Kv.Key))
		switch {
		case e.Type != clientv3.EventTypePut:
		case key.Kind == state.KindShardMap:
			m, err := sharding.Decode(e.Kv.Value)
			if err != nil {
				return d, fmt.Errorf("a shard map was written: %w", err)
			}
			d.maps++
			d.moved += moved(d.last, m)
			d.losing += len(losing(m))
			d.last = m
		case key.Kind == state.KindReleased:
			r, err := sharding.DecodeReport(e.Kv.Value)
			if err != nil {
				return d, fmt.Errorf("%s reported: %w", key.Address, err)
			}
			if about[key.Address] == r.Generation {
				d.further++
			} else {
				d.reports++
			}
			about[key.Address] = r.Generation
		}
	}
	return d, nil
}

// moved is how many shards have another owner in now than in before, which may be nil.
func moved(before, now *sharding.Map) int {
	n := 0
	for shard := range now.Shards() {
		owner, owned := now.Owner(shard)
		if !owned {
			continue
		}
		if before != nil {
			if old, ok := before.Owner(shard); ok && old == owner {
				continue
			}
		}
		n++
	}
	return n
}

// losing are the members from which m itself takes shards, not a map before it.
func losing(m *sharding.Map) []sharding.Owner {
	var out []sharding.Owner
	for move := range m.Moves() {
		if move.Since == m.Generation() && !slices.Contains(out, move.From) {
			out = append(out, move.From)
		}
	}
	return out
}

// spread is by how many shards the loads of m's owners differ at most.
func spread(m *sharding.Map) int {
	least, most := m.Shards(), 0
	for _, l := range m.Loads() {
		least, most = min(least, l.Shards), max(most, l.Shards)
	}
	return most - least
}

// fewest is how many shards have to move at least from before, which may be nil, so that
// takers of equal weight, and nobody else, own all of them and their loads differ by one at
// most. Each taker has the quotient then, and as many as the remainder have one more. Who
// has more than its part loses that; all that is nobody's, or of somebody who is no taker,
// moves too. It is least if those have one more who have more than the quotient already.
func fewest(before *sharding.Map, shards int, takers []sharding.Owner) int {
	loads, orphans := make([]int, len(takers)), shards
	if before != nil {
		for _, l := range before.Loads() {
			if i := slices.Index(takers, l.Owner); i >= 0 {
				loads[i] = l.Shards
				orphans -= l.Shards
			}
		}
	}
	slices.Sort(loads)
	slices.Reverse(loads)
	n := orphans
	for i, load := range loads {
		part := shards / len(takers)
		if i < shards%len(takers) {
			part++
		}
		n += max(0, load-part)
	}
	return n
}
