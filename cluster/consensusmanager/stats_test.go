package consensusmanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/histogram"
	"github.com/goverse/goverse/internal/sharding"
)

func TestPausesAreCountedUpwards(t *testing.T) {
	t.Parallel()
	all := histogram.NewDurations(pauseBounds...)
	for _, pause := range []time.Duration{300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Hour} {
		all.Observe(pause)
	}
	p := all.Snapshot()
	require.EqualValues(t, 4, p.Count)
	require.Equal(t, 2*time.Hour+4300*time.Microsecond, p.Sum)
	require.Equal(t, stats.Bucket{AtMost: time.Millisecond, Count: 2}, p.Buckets[0], "a bound belongs to its bucket")
	require.Equal(t, stats.Bucket{AtMost: 5 * time.Millisecond, Count: 3}, p.Buckets[2])
	require.Equal(t, stats.Bucket{AtMost: time.Minute, Count: 3}, p.Buckets[len(p.Buckets)-1], "the longest is in none")
	for i := 1; i < len(p.Buckets); i++ {
		require.Greater(t, p.Buckets[i].AtMost, p.Buckets[i-1].AtMost)
	}
}

// Only shards that a move brings here are timed, each move once, from the time at which it was first seen.
func TestArrivals(t *testing.T) {
	t.Parallel()
	a, b := sharding.Owner{Address: "a:1", Incarnation: 1}, sharding.Owner{Address: "b:1", Incarnation: 2}
	plan := func(generation int64, current *sharding.Map, mode sharding.Mode, owners ...sharding.Owner) *sharding.Map {
		var members []sharding.Member
		for _, o := range owners {
			members = append(members, sharding.Member{Owner: o})
		}
		result, err := sharding.Plan(sharding.Input{Generation: generation, Shards: 4, Current: current, Members: members,
			Mode: mode})
		require.NoError(t, err)
		return result.Map
	}
	first := plan(1, nil, sharding.Repair, a)
	both := plan(5, first, sharding.Rebalance, a, b)
	h := newShards(Config{Process: etcd.Process{Address: b.Address}, Settings: ofShards(4)})

	h.announceMoves(first, b)
	h.announceMoves(both, sharding.Owner{}) // not registered: the map is examined again when it is
	h.announceMoves(both, b)
	h.announceMoves(both, b)
	moved := 0
	for move := range both.Moves() {
		moved++
		require.False(t, h.slots[move.Shard].arrival.since.IsZero())
		h.recordArrival(&h.slots[move.Shard], 4) // another epoch is another move
		h.recordArrival(&h.slots[move.Shard], 5)
		h.recordArrival(&h.slots[move.Shard], 5) // acquired again after a suspension
	}
	require.Equal(t, 2, moved)
	require.EqualValues(t, 2, h.pauses.Snapshot().Count)

	alone := plan(9, both, sharding.Repair, b)
	h.announceMoves(alone, b)
	for shard := range 4 {
		h.recordArrival(&h.slots[shard], alone.Epoch(shard))
	}
	require.EqualValues(t, 2, h.pauses.Snapshot().Count, "what a crash gave came by no move")

	other := newShards(Config{Settings: ofShards(8)})
	other.announceMoves(both, b)
	require.Nil(t, other.announcedMap.in, "a map with another number of shards is none")
}
