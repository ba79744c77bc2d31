package request

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// owners returns a map that assigns the shards to these members in turn.
func owners(t *testing.T, generation int64, shards int, current *sharding.Map,
	members ...*state.Member) *state.ShardMap {
	t.Helper()
	in := sharding.Input{Generation: generation, Shards: shards, Current: current, Mode: sharding.Rebalance,
		Done: func(sharding.Move) bool { return false }}
	for _, m := range members {
		in.Members = append(in.Members, sharding.Member{Owner: sharding.Owner{Address: m.Address,
			Incarnation: m.Incarnation}, Excluded: m.Draining})
	}
	result, err := sharding.Plan(in)
	require.NoError(t, err)
	return &state.ShardMap{Map: result.Map, ModRevision: generation}
}

func sharder(address string, incarnation int64, alter ...func(*state.Record)) *state.Member {
	m := &state.Member{Address: address, Incarnation: incarnation}
	m.Shards, m.Lease = 8, incarnation
	for _, f := range alter {
		f(&m.Record)
	}
	return m
}

func drains(r *state.Record)  { r.Draining = true }
func leaving(r *state.Record) { r.Draining, r.Stopping = true, true }

// From the request to the last straggler: the remaining shards are those that the map assigns to the node and
// those that it has not released.
func TestRequest(t *testing.T) {
	a, b := sharder("a:1", 1), sharder("b:1", 2)
	queue := []*state.Candidate{{KeyLease: 2, Lease: 2, Address: "b:1", CreateRevision: 3}}
	s := &state.Snapshot{Revision: 10, Members: []*state.Member{a, b}, Queue: queue, ShardMap: owners(t, 10, 8, nil, a, b)}
	w, err := newDrainRequest(s, "a:1", false)
	require.NoError(t, err)
	require.Equal(t, 4, w.shardsBefore)
	look := func(s *state.Snapshot, left int, done bool) {
		t.Helper()
		is, err := w.applySnapshot(s)
		require.NoError(t, err)
		require.Equal(t, left, w.shardsLeft)
		require.Equal(t, done, is)
	}
	look(s, 4, false)
	_, err = w.applySnapshot(&state.Snapshot{Members: []*state.Member{a, b}, ShardMap: owners(t, 11, 8, nil, b)})
	require.NoError(t, err)
	require.Zero(t, w.shardsLeft)
	require.False(t, w.answered, "empty, and it may get some again")

	drained := sharder("a:1", 1, drains)
	said := &state.Snapshot{Revision: 12, Members: []*state.Member{drained, b}, Queue: queue, ShardMap: s.ShardMap}
	look(said, 4, false)
	moving := *said
	moving.ShardMap = owners(t, 13, 8, s.ShardMap.Map, drained, b)
	look(&moving, 4, false)
	busy := moving
	busy.Released = []*state.ReleaseReport{{Address: "a:1", Report: sharding.Report{Incarnation: 1, Generation: 13,
		Busy: []int{moves(moving.ShardMap)[0]}}}}
	look(&busy, 1, false)
	require.ErrorContains(t, w.unfinishedError(context.Canceled), "a:1 has 1 of 4 shards and goes on draining; goversed "+
		"shards shows whom they wait for;")
	require.ErrorIs(t, w.unfinishedError(context.Canceled), context.Canceled)
	alone := busy
	alone.Members = []*state.Member{drained, sharder("b:1", 2, drains)}
	look(&alone, 1, false)
	require.ErrorContains(t, w.unfinishedError(context.Canceled),
		"no other node can take them any more: start one; goversed "+
			"drain --undo a:1 ends it")
	over := moving
	over.Released = []*state.ReleaseReport{{Address: "a:1", Report: sharding.Report{Incarnation: 1, Generation: 13}}}
	look(&over, 0, true)
	unread := over
	unread.ShardMap = &state.ShardMap{Err: sharding.ErrBadMap}
	done, err := w.applySnapshot(&unread)
	require.ErrorIs(t, err, sharding.ErrBadMap, "it may assign shards to a:1")
	require.False(t, done)

	_, err = w.applySnapshot(s)
	require.ErrorIs(t, err, ErrUndone)
	_, err = w.applySnapshot(&state.Snapshot{Members: []*state.Member{b}})
	require.ErrorIs(t, err, ErrMemberGone)
	_, err = w.applySnapshot(&state.Snapshot{Members: []*state.Member{sharder("a:1", 9, drains), b}})
	require.ErrorIs(t, err, ErrMemberGone)

	undo, err := newDrainRequest(said, "a:1", true)
	require.NoError(t, err)
	done, err = undo.applySnapshot(said)
	require.NoError(t, err)
	require.False(t, done)
	done, err = undo.applySnapshot(s)
	require.NoError(t, err)
	require.True(t, done)
	_, err = undo.applySnapshot(&state.Snapshot{Members: []*state.Member{sharder("a:1", 1, leaving)}})
	require.ErrorIs(t, err, ErrRefused)
}

func moves(m *state.ShardMap) (shards []int) {
	for move := range m.Moves() {
		shards = append(shards, move.Shard)
	}
	return shards
}

// A member that is stopping or draining, or has another number of shards, takes nothing over.
func TestRequestThatCouldNotEnd(t *testing.T) {
	a := sharder("a:1", 1)
	queue := []*state.Candidate{{KeyLease: 1, Lease: 1, Address: "a:1", CreateRevision: 3}}
	for name, other := range map[string]*state.Member{
		"stopping": sharder("b:1", 2, leaving), "draining": sharder("b:1", 2, drains),
		"another number": sharder("b:1", 2, func(r *state.Record) { r.Shards = 9 }),
	} {
		s := &state.Snapshot{Revision: 10, Members: []*state.Member{a, other}, Queue: queue, ShardMap: owners(t, 10, 8, nil,
			a)}
		_, err := newDrainRequest(s, "a:1", false)
		require.ErrorIs(t, err, ErrRefused, name)
		require.ErrorContains(t, err, "no other node could take", name)
		_, err = newDrainRequest(s, "a:1", true)
		require.NoError(t, err, name)
	}
	s := &state.Snapshot{Members: []*state.Member{sharder("a:1", 1, leaving)}}
	for _, undo := range []bool{false, true} {
		_, err := newDrainRequest(s, "a:1", undo)
		require.ErrorContains(t, err, "a:1 is stopping, and hands its shards over by itself")
	}
	for i := range 10 {
		s.Members = append(s.Members, sharder(fmt.Sprintf("b:%d", i), 2))
	}
	_, err := newDrainRequest(s, "c:1", false)
	require.ErrorContains(t, err, "no such node: c:1; there are a:1, b:0, b:1, b:2, b:3, b:4, b:5, b:6, 3 more, which "+
		"goversed nodes shows")
}
