package target

import (
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// dealings counts the writes of the shards' keys in a period, as seen by a bare watch and not by the writers.
type dealings struct {
	// maps counts the shard maps written; moved counts the shards to which they assigned another owner.
	maps, moved int
	// reports counts the reports of releases. losing is the number required: for each map, one report of every
	// member that loses shards by it. further counts the additional reports of a member about the same map, for
	// batches of stragglers.
	reports, further, losing int
	// last is the newest map.
	last *sharding.Map
}

// readDealings evaluates events in order. before is the map before the first event, or nil if there was none.
func readDealings(keys state.Keys, before *sharding.Map, events []fleet.Sighting) (dealings, error) {
	d := dealings{last: before}
	about := map[string]int64{} // generation of a member's newest report
	for _, e := range events {
		key := keys.Parse(string(e.Kv.Key))
		switch {
		case e.Type != clientv3.EventTypePut:
		case key.Kind == state.KindShardMap:
			m, err := sharding.DecodeMap(e.Kv.Value)
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

// moved returns the number of shards with another owner in now than in before, which may be nil.
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

// losing returns the members that lose shards by m itself, not by an earlier map.
func losing(m *sharding.Map) []sharding.Owner {
	var out []sharding.Owner
	for move := range m.Moves() {
		if move.Since == m.Generation() && !slices.Contains(out, move.From) {
			out = append(out, move.From)
		}
	}
	return out
}

// spread returns the largest difference between the loads of m's owners, in shards.
func spread(m *sharding.Map) int {
	least, most := m.Shards(), 0
	for _, l := range m.Loads() {
		least, most = min(least, l.Shards), max(most, l.Shards)
	}
	return most - least
}

// fewest returns the smallest number of shards that must move from before, which may be nil, so that takers of
// equal weight own all shards and their loads differ by at most one. Then each taker has the quotient, and as
// many takers as the remainder have one more. A taker with more than its part loses the excess. All shards
// without an owner, or with an owner that is not a taker, move too. The number is smallest if the takers that
// already exceed the quotient keep one more.
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
