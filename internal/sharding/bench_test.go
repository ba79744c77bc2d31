package sharding

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/shard"
)

// scattered returns a map in which no two neighbours have the same owner, so that its encoding is as long as
// possible.
func scattered(t testing.TB, shards, owners int) *Map {
	t.Helper()
	of := members(owners)
	cells, table := make([]shardCell, shards), make([]Owner, owners)
	for i, m := range of {
		table[i] = m.Owner
	}
	for shard := range cells {
		cells[shard] = shardCell{epoch: int64(1 + shard%7), owner: int32((shard * 37) % owners)}
	}
	return newMap(7, table, cells, nil)
}

func BenchmarkPlan(b *testing.B) {
	settled := firstMap(b, shard.DefaultCount, 100)
	worn := scattered(b, shard.DefaultCount, 100)
	draining := members(100)
	draining[50].Excluded = true
	moving := plan(b, Input{Generation: 8, Shards: shard.DefaultCount, Current: worn, Members: members(150),
		Mode: Rebalance}).Map
	uneven := members(100)
	for i := range uneven {
		uneven[i].Weight = 1 + i%9
	}
	for name, in := range map[string]Input{
		"first":        {Members: members(100)},
		"nothing":      {Current: settled, Members: members(100), Mode: Rebalance},
		"join":         {Current: settled, Members: members(101), Mode: Rebalance},
		"join, worn":   {Current: worn, Members: members(101), Mode: Rebalance},
		"crash":        {Current: settled, Members: members(99)},
		"half crash":   {Current: worn, Members: members(50)},
		"drain":        {Current: settled, Members: draining},
		"weights":      {Current: worn, Members: uneven, Mode: Rebalance},
		"inherit":      {Current: moving, Members: members(100), Mode: Rebalance},
		"above quotas": {Current: moving, Members: append(uneven, members(150)[100:102]...), Mode: Rebalance},
		"moves done": {Current: moving, Members: members(151), Mode: Rebalance,
			Done: func(m Move) bool { return m.Shard%2 == 0 }},
	} {
		in.Generation, in.Shards = 9, shard.DefaultCount
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Plan(in)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkCodec(b *testing.B) {
	worn := scattered(b, shard.DefaultCount, 100)
	for name, m := range map[string]*Map{
		"settled": firstMap(b, shard.DefaultCount, 100),
		"worn":    worn,
		"worn and moving": plan(b, Input{Generation: 8, Shards: shard.DefaultCount, Current: worn, Members: members(150),
			Mode: Rebalance}).Map,
		"65536 shards": firstMap(b, shard.MaxCount, 100),
		"65536 worn":   scattered(b, shard.MaxCount, 100),
	} {
		value := m.Encode()
		b.Run("decode "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := DecodeMap(value)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(len(value)), "bytes")
		})
		b.Run("encode "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Encode()
			}
		})
	}
}

// The queries that calls make do not allocate.
func TestLookupsDoNotAllocate(t *testing.T) {
	m := firstMap(t, 100, 3)
	served := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n := shard.Of("user/4711", m.Shards())
		_, owned := m.Owner(n)
		_, moving := m.Move(n)
		if owned && !moving && m.Epoch(n) == m.Generation() {
			served++
		}
	}))
	require.Positive(t, served)
}

func BenchmarkLookup(b *testing.B) {
	m := scattered(b, shard.DefaultCount, 100)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = (n + 4099) % shard.DefaultCount
		m.Owner(n)
		m.Move(n)
		m.Epoch(n)
	}
}
