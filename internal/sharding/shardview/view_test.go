package shardview

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

func TestViewOfAJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("a:1") // revision 2
	w.plan(sharding.Repair)
	w.join("b:1", func(r *state.Record) { r.Weight = 2 }) // revision 4
	w.join("c:1", func(r *state.Record) { r.Shards = 0 }) // takes no part
	v, err := New(w.snapshot())
	require.NoError(t, err)
	require.Equal(t, shard.Table{Count: 12, Generation: 3, Revision: 5, Balance: shard.Balance{Least: 12, Most: 12},
		Moves: []shard.MoveRow{}, Epochs: []shard.EpochRow{{Epoch: 3, Shards: "0-11"}}, Owners: []shard.OwnerRow{
			{Address: "a:1", Incarnation: 2, State: shard.Alive, Weight: 1, Count: 12, MayServe: 12, Shards: "0-11"},
			{Address: "b:1", Incarnation: 4, State: shard.Alive, Weight: 2},
		}}, v, "who joined has none yet")
	require.Equal(t, 12, v.MayServe())

	w.leave("c:1")
	w.plan(sharding.Rebalance)
	v, err = New(w.snapshot())
	require.NoError(t, err)
	require.Equal(t, shard.Balance{Least: 4, Most: 8}, v.Balance)
	require.Equal(t, 8, v.OpenMoves)
	open := shard.MoveRow{From: "a:1", FromIncarnation: 2, To: "b:1", ToIncarnation: 4, Since: 6, WaitsFor: "a:1",
		Count: 8, Shards: "4-11"}
	require.Equal(t, []shard.MoveRow{open}, v.Moves)
	require.Equal(t, shard.OwnerRow{Address: "b:1", Incarnation: 4, State: shard.Alive, Weight: 2, Count: 8, MayServe: 0,
		Shards: "4-11"}, v.Owner("b:1", 4))
	require.Zero(t, v.Owner("b:1", 3), "another incarnation is somebody else")
	require.Equal(t, 4, v.MayServe())

	w.released("a:1", 6, 11)
	v, err = New(w.snapshot())
	require.NoError(t, err)
	open.Count, open.Shards = 2, "6,11"
	done := open
	done.Done, done.WaitsFor, done.Count, done.Shards = true, "", 6, "4-5,7-10"
	require.Equal(t, []shard.MoveRow{done, open}, v.Moves, "a straggler holds up itself only")
	require.Equal(t, 6, v.Owner("b:1", 4).MayServe)
	require.Equal(t, 2, v.OpenMoves)

	w.leave("a:1")
	w.join("b:1", draining)
	v, err = New(w.snapshot())
	require.NoError(t, err)
	require.Zero(t, v.OpenMoves, "who is gone is not waited for")
	require.Equal(t, shard.OwnerRow{Address: "a:1", Incarnation: 2, State: shard.Gone, Count: 4, Shards: "0-3"},
		v.Owner("a:1", 2))
	require.Equal(t, shard.Draining, v.Owner("b:1", 4).State)
	require.Equal(t, 8, v.MayServe())
}

func TestViewOfNoMap(t *testing.T) {
	t.Parallel()
	_, err := New(nil)
	require.ErrorIs(t, err, ErrNoMap)
	w := newWorld(t)
	_, err = New(w.snapshot())
	require.ErrorIs(t, err, ErrNoMap)
	w.put(w.keys.ShardMap(), "{")
	_, err = New(w.snapshot())
	require.ErrorIs(t, err, sharding.ErrBadMap)
	require.ErrorContains(t, err, "delete /g/shards/map")
	require.NotContains(t, err.Error(), "\n")
	w.put(w.keys.ShardMap(), `{"version":2}`)
	_, err = New(w.snapshot())
	require.ErrorIs(t, err, format.ErrFormat)
	require.ErrorContains(t, err, "use a release of Goverse that reads format 2, and delete nothing")
	require.NotContains(t, err.Error(), "/g/shards/map")
}

func TestViewOfShardsThatAreNobodys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(w.keys.ShardMap(), `{"version":1,"shards":12,"generation":1,"grants":[]}`)
	v, err := New(w.snapshot())
	require.NoError(t, err)
	require.Equal(t, "0-11", v.Unowned)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
}
