package target

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

func owners(n int) []sharding.Owner {
	var out []sharding.Owner
	for i := range n {
		out = append(out, sharding.Owner{Address: fmt.Sprintf("m%d:1", i), Incarnation: int64(i + 1)})
	}
	return out
}

func planFor(t *testing.T, generation int64, shards int, before *sharding.Map, mode sharding.Mode,
	takers ...sharding.Owner) *sharding.Map {
	t.Helper()
	in := sharding.Input{Generation: generation, Shards: shards, Current: before, Mode: mode,
		Done: func(sharding.Move) bool { return true }}
	for _, o := range takers {
		in.Members = append(in.Members, sharding.Member{Owner: o})
	}
	result, err := sharding.Plan(in)
	require.NoError(t, err)
	return result.Map
}

// The result of fewest equals the minimum over all assignments of six shards.
func TestFewestIsTheLeastOfAllWays(t *testing.T) {
	const shards = 6
	all := owners(4)
	before := planFor(t, 1, shards, nil, sharding.Repair, all[:3]...)
	skewed := planFor(t, 2, shards, before, sharding.Repair, all[0], all[1])
	for _, m := range []*sharding.Map{nil, before, skewed} {
		for _, takers := range [][]sharding.Owner{all[:1], all[:2], all[1:3], all, {all[3]}} {
			require.Equal(t, leastOfAll(m, shards, takers), fewest(m, shards, takers), "%v", takers)
		}
	}
}

func leastOfAll(before *sharding.Map, shards int, takers []sharding.Owner) int {
	least := shards + 1
	ways := 1
	for range shards {
		ways *= len(takers)
	}
	for way := range ways {
		loads, moves, rest := make([]int, len(takers)), 0, way
		for shard := range shards {
			i := rest % len(takers)
			rest /= len(takers)
			loads[i]++
			if before == nil {
				moves++
			} else if owner, ok := before.Owner(shard); !ok || owner != takers[i] {
				moves++
			}
		}
		low, high := shards, 0
		for _, load := range loads {
			low, high = min(low, load), max(high, load)
		}
		if high-low <= 1 {
			least = min(least, moves)
		}
	}
	return least
}

func TestDealingsAreReadFromAWatch(t *testing.T) {
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	m := owners(3)
	first := planFor(t, 1, 8192, nil, sharding.Repair, m[:2]...)
	joined := planFor(t, 5, 8192, first, sharding.Rebalance, m...)
	put := func(key string, value []byte) fleet.Sighting {
		return fleet.Sighting{Event: &clientv3.Event{Type: clientv3.EventTypePut,
			Kv: &mvccpb.KeyValue{Key: []byte(key), Value: value}}}
	}
	report := func(o sharding.Owner, generation int64, busy ...int) fleet.Sighting {
		return put(keys.Released(o.Address),
			sharding.Report{Incarnation: o.Incarnation, Generation: generation, Busy: busy}.Encode())
	}
	events := []fleet.Sighting{put(keys.ShardMap(), first.Encode())}
	d, err := readDealings(keys, nil, events)
	require.NoError(t, err)
	require.Equal(t, dealings{maps: 1, moved: 8192, last: d.last}, d)
	require.Equal(t, 0, spread(d.last))

	events = append(events, put(keys.ShardMap(), joined.Encode()), report(m[0], 5), report(m[1], 5, 7), report(m[1], 5),
		fleet.Sighting{Event: &clientv3.Event{Type: clientv3.EventTypeDelete,
			Kv: &mvccpb.KeyValue{Key: []byte(keys.Released(m[0].Address))}}})
	d, err = readDealings(keys, nil, events)
	require.NoError(t, err)
	require.Equal(t, dealings{maps: 2, moved: 8192 + 2730, reports: 2, further: 1, losing: 2, last: d.last}, d)
	require.Equal(t, 1, spread(d.last))
	require.Equal(t, 2730, fewest(first, 8192, m))

	_, err = readDealings(keys, nil, []fleet.Sighting{put(keys.ShardMap(), []byte("{"))})
	require.ErrorIs(t, err, sharding.ErrBadMap)
}
