package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
)

const shards = 4

var (
	a = sharding.Owner{Address: "a:1", Incarnation: 1}
	b = sharding.Owner{Address: "b:1", Incarnation: 2}
)

func members(owners ...sharding.Owner) (out []sharding.Member) {
	for _, o := range owners {
		out = append(out, sharding.Member{Owner: o})
	}
	return out
}

// next returns the map that follows m with these members.
func next(t *testing.T, m *sharding.Map, generation int64, done func(sharding.Move) bool,
	owners ...sharding.Owner) *sharding.Map {
	t.Helper()
	r, err := sharding.Plan(sharding.Input{Generation: generation, Shards: shards, Current: m,
		Members: members(owners...), Done: done, Mode: sharding.Rebalance})
	require.NoError(t, err)
	require.Positive(t, r.MovedShards())
	return r.Map
}

func never(sharding.Move) bool  { return false }
func always(sharding.Move) bool { return true }

// holder is the shards that a member holds, with their epochs.
type holder map[int]int64

func (h holder) held(shard int) int64 { return h[shard] }

func (h holder) seen(own sharding.Owner, m *sharding.Map, done func(sharding.Move) bool) Input {
	return Input{Shards: shards, Map: m, Own: own, Valid: true, Done: done, Held: h.held,
		Withheld: func(int) bool { return false }}
}

func TestFirstMapIsServedAtOnce(t *testing.T) {
	m := next(t, nil, 10, never, a)
	o := Decide(holder{}.seen(a, m, never))
	require.Equal(t, []Grant{{0, 10}, {1, 10}, {2, 10}, {3, 10}}, o.Acquire)
	require.Nil(t, NextReport(holder{}.seen(a, m, never)))
	suspected := holder{}.seen(a, m, never)
	suspected.Suspected = true
	require.Empty(t, Decide(suspected).Acquire, "it may have been removed")
	suspected.Held = holder{0: 10, 1: 10, 2: 10, 3: 10}.held
	require.Empty(t, Decide(suspected).Release, "what it serves it goes on to serve")
	require.Equal(t, Orders{}, Decide(holder{0: 10, 1: 10, 2: 10, 3: 10}.seen(a, m, never)),
		"and then all is as it should be")
}

func TestReleaseBeforeTakeOver(t *testing.T) {
	one := next(t, nil, 10, never, a)
	two := next(t, one, 20, never, a, b)
	var moved []int
	for move := range two.Moves() {
		moved = append(moved, move.Shard)
	}
	require.Len(t, moved, 2)

	to := Decide(holder{}.seen(b, two, never))
	require.Empty(t, to.Acquire, "a has them still")
	require.Equal(t, 2, to.Waiting)

	h := holder{0: 10, 1: 10, 2: 10, 3: 10}
	from := Decide(h.seen(a, two, never))
	require.Equal(t, moved, from.Release)
	require.Equal(t, sharding.Report{Incarnation: 1, Generation: 20, Busy: moved}, *NextReport(h.seen(a, two, never)))
	h[moved[0]] = 0
	report := NextReport(h.seen(a, two, never))
	require.Equal(t, &sharding.Report{Incarnation: 1, Generation: 20, Busy: moved[1:]}, report,
		"one that takes long holds up no other")
	reported := h.seen(a, two, never)
	reported.Reported = *report
	require.Nil(t, NextReport(reported), "said once")

	half := func(m sharding.Move) bool { return m.Done(true, *report) }
	to = Decide(holder{}.seen(b, two, half))
	require.Equal(t, []Grant{{moved[0], 20}}, to.Acquire)
	require.Equal(t, 1, to.Waiting)
	h[moved[1]] = 0
	require.Equal(t, &sharding.Report{Incarnation: 1, Generation: 20}, NextReport(h.seen(a, two, half)))
	require.Nil(t, NextReport(h.seen(a, two, always)), "nobody waits any more")
}

// A report that another process wrote in this member's name is corrected even if no member waits for it: it
// would count for moves of a later map, too.
func TestAReportThatSaysTooMuch(t *testing.T) {
	m := next(t, nil, 10, never, a)
	in := holder{0: 10, 1: 10, 2: 10, 3: 10}.seen(a, m, always)
	in.Reported = sharding.Report{Incarnation: 1, Generation: 11}
	require.Equal(t, &sharding.Report{Incarnation: 1, Generation: 10}, NextReport(in))
	in.Reported = sharding.Report{Incarnation: 7, Generation: 11}
	require.Nil(t, NextReport(in), "that of another incarnation proves nothing")
	in.Reported = sharding.Report{Incarnation: 1, Generation: 10}
	require.Nil(t, NextReport(in))

	two := next(t, m, 20, never, a, b)
	in = holder{0: 10, 1: 10, 2: 10, 3: 10}.seen(a, two, always)
	in.Reported = sharding.Report{Incarnation: 1, Generation: 20}
	require.Len(t, NextReport(in).Busy, 2, "it has released nothing yet")
}

// A shard that left and came back unnoticed is released all the same, because another member may have served
// it.
func TestEpochThatChanged(t *testing.T) {
	m := next(t, nil, 20, never, a)
	o := Decide(holder{0: 10, 1: 20, 2: 20, 3: 20}.seen(a, m, never))
	require.Equal(t, []int{0}, o.Release)
	require.Empty(t, o.Acquire)
	o = Decide(holder{0: 0, 1: 20, 2: 20, 3: 20}.seen(a, m, never))
	require.Equal(t, []Grant{{0, 20}}, o.Acquire)
}

// The target of an open move dies before the move is done, and the shard goes back.
func TestMoveBackToWhomItCameFrom(t *testing.T) {
	two := next(t, next(t, nil, 10, never, a), 20, never, a, b)
	back := next(t, two, 30, never, a)
	h := holder{0: 10, 1: 10, 2: 10, 3: 10}
	o := Decide(h.seen(a, back, never))
	require.Len(t, o.Release, 2)
	require.Len(t, NextReport(h.seen(a, back, never)).Busy, 2)
	for _, shard := range o.Release {
		h[shard] = 0
	}
	o = Decide(h.seen(a, back, never))
	require.Len(t, o.Acquire, 2, "it waits for nobody but itself")
	require.Equal(t, int64(30), o.Acquire[0].Epoch)
	require.Equal(t, &sharding.Report{Incarnation: 1, Generation: 30}, NextReport(h.seen(a, back, never)))
	for _, g := range o.Acquire {
		h[g.Shard] = g.Epoch
	}
	require.Empty(t, NextReport(h.seen(a, back, never)).Busy, "what it holds anew is not what it was to release")
}

func TestNothingIsHeldWithoutAReason(t *testing.T) {
	m := next(t, nil, 10, never, a)
	h := holder{0: 10, 2: 10}
	all := []int{0, 2}
	require.Equal(t, all, Decide(h.seen(a, nil, never)).Release, "the map is gone")
	require.Equal(t, all, Decide(h.seen(sharding.Owner{Address: "a:1", Incarnation: 9}, m, never)).Release,
		"a new incarnation owns nothing")
	require.Equal(t, all, Decide(h.seen(sharding.Owner{}, m, never)).Release, "not registered")
	invalid := h.seen(a, m, never)
	invalid.Valid = false
	require.Equal(t, all, Decide(invalid).Release)
	require.Empty(t, Decide(invalid).Acquire)
	other := h.seen(a, m, never)
	other.Shards = 3
	require.Equal(t, all, Decide(other).Release, "a map with another number of shards")
}
