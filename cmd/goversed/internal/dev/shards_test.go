package dev

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// shardMap returns the successor of current with ten shards, rebalanced over owners, each an address and an
// incarnation.
func shardMap(t *testing.T, generation int64, current *state.ShardMap, owners ...any) *state.ShardMap {
	t.Helper()
	in := sharding.Input{Generation: generation, Shards: 10, Mode: sharding.Rebalance}
	if current != nil {
		in.Current = current.Map
	}
	for i := 0; i < len(owners); i += 2 {
		in.Members = append(in.Members, sharding.Member{Owner: sharding.Owner{Address: owners[i].(string),
			Incarnation: int64(owners[i+1].(int))}})
	}
	result, err := sharding.Plan(in)
	require.NoError(t, err)
	return &state.ShardMap{Map: result.Map, ModRevision: generation}
}

func shardLines(before, after *state.Snapshot) (lines []string) {
	for _, h := range shardChanges(before, after) {
		lines = append(lines, h.describe())
	}
	return lines
}

func TestShardChanges(t *testing.T) {
	t.Parallel()
	a, b, c := newMember("a", 1), newMember("b", 2), newMember("c", 3)
	at := func(m *state.ShardMap, ms ...*state.Member) *state.Snapshot {
		return &state.Snapshot{Members: ms, ShardMap: m}
	}
	none := at(nil, a)
	alone := at(shardMap(t, 10, nil, "a", 1), a)
	require.Empty(t, shardLines(none, none))
	require.Equal(t, []string{"10 shards assigned to a", "all 10 shards are served"}, shardLines(none, alone))
	require.Empty(t, shardLines(alone, alone))

	two := at(shardMap(t, 11, alone.ShardMap, "a", 1, "b", 2), a, b)
	require.Equal(t, []string{"5 shards move from a to b"}, shardLines(alone, two))
	released := *two
	released.Released = []*state.ReleaseReport{{Address: "a", Report: sharding.Report{Incarnation: 1, Generation: 11}}}
	require.Equal(t, []string{"all 10 shards are served"}, shardLines(two, &released))
	require.Equal(t, "all 10 shards are served, 2.0 ms later", event{kind: shardsServed, shards: 10,
		elapsed: "2.0 ms later"}.describe())

	three := at(shardMap(t, 12, shardMap(t, 11, nil, "a", 1, "b", 2), "a", 1, "b", 2, "c", 3), a, b, c)
	require.Equal(t, []string{"3 shards move from 2 nodes to c"},
		shardLines(at(shardMap(t, 11, nil, "a", 1, "b", 2), a, b), three))
	settled := at(shardMap(t, 13, nil, "a", 1, "b", 2, "c", 3), a, b, c)
	crashed := at(settled.ShardMap, a, b)
	require.Empty(t, shardLines(settled, crashed))
	repaired := at(shardMap(t, 14, settled.ShardMap, "a", 1, "b", 2), a, b)
	require.Equal(
		t,
		[]string{"3 shards of c assigned to 2 nodes", "all 10 shards are served"},
		shardLines(crashed, repaired),
	)

	require.Empty(t, shardLines(alone, at(&state.ShardMap{Err: sharding.ErrBadMap}, a)), "the nodes' logs say so")
	require.NotEmpty(t, diffSnapshots(nil, alone))
}
