package sharding

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/shard"
)

// member returns member i of many, in the order of addresses.
func member(i int) Member {
	return Member{Owner: Owner{Address: fmt.Sprintf("10.0.%d.%d:47001", i/100, 100+i%100), Incarnation: int64(i + 1)}}
}

func members(n int) []Member {
	var out []Member
	for i := range n {
		out = append(out, member(i))
	}
	return out
}

func firstMap(t testing.TB, shards, n int) *Map {
	t.Helper()
	return plan(t, Input{Generation: 1, Shards: shards, Members: members(n)}).Map
}

func plan(t require.TestingT, in Input) Result {
	r, err := Plan(in)
	require.NoError(t, err)
	return r
}

func allDone(Move) bool { return true }

func loads(m *Map) []int {
	var out []int
	for _, l := range m.Loads() {
		out = append(out, l.Shards)
	}
	return out
}

// An example that is easy to verify: a third member joins two, and leaves again.
func TestTwoThreeTwo(t *testing.T) {
	first := plan(t, Input{Generation: 10, Shards: 8192, Members: members(2), Mode: Rebalance})
	require.Equal(t, 8192, first.Assigned)
	require.Equal(t, []int{4096, 4096}, loads(first.Map))
	require.Equal(t, `{"version":1,"shards":8192,"generation":10,"grants":[`+
		`{"address":"10.0.0.100:47001","incarnation":1,"epoch":10,"shards":"0-4095"},`+
		`{"address":"10.0.0.101:47001","incarnation":2,"epoch":10,"shards":"4096-8191"}],"moves":[]}`,
		string(first.Map.Encode()))

	idle := plan(t, Input{Generation: 11, Shards: 8192, Current: first.Map, Members: members(3)})
	require.Same(t, first.Map, idle.Map, "a repair leaves alone who joins")

	join := plan(t, Input{Generation: 12, Shards: 8192, Current: first.Map, Members: members(3), Mode: Rebalance})
	require.Equal(t, Result{Map: join.Map, Rebalanced: 2730}, join, "the third is the one that is rounded down")
	require.Equal(t, []int{2731, 2731, 2730}, loads(join.Map))
	require.Equal(t, `{"version":1,"shards":8192,"generation":12,"grants":[`+
		`{"address":"10.0.0.100:47001","incarnation":1,"epoch":10,"shards":"0-2730"},`+
		`{"address":"10.0.0.101:47001","incarnation":2,"epoch":10,"shards":"4096-6826"},`+
		`{"address":"10.0.0.102:47001","incarnation":3,"epoch":12,"shards":"2731-4095,6827-8191"}],"moves":[`+
		`{"address":"10.0.0.100:47001","incarnation":1,"since":12,"shards":"2731-4095"},`+
		`{"address":"10.0.0.101:47001","incarnation":2,"since":12,"shards":"6827-8191"}]}`, string(join.Map.Encode()))

	leaving := members(3)
	leaving[2].Excluded = true
	leave := plan(t, Input{Generation: 13, Shards: 8192, Current: join.Map, Members: leaving, Done: allDone})
	require.Equal(t, Result{Map: leave.Map, Drained: 2730}, leave)
	require.Equal(t, []int{4096, 4096}, loads(leave.Map))

	crash := plan(t, Input{Generation: 13, Shards: 8192, Current: join.Map, Members: members(2), Done: allDone})
	require.Equal(t, Result{Map: crash.Map, Assigned: 2730}, crash)
	for range crash.Map.Moves() {
		t.Fatal("nobody is to be waited for")
	}
	for shard := range 8192 { // each got back the shards that it had given
		was, _ := first.Map.Owner(shard)
		is, _ := crash.Map.Owner(shard)
		require.Equal(t, was, is)
	}
}

func TestWeights(t *testing.T) {
	of := members(3)
	of[0].Weight, of[1].Weight, of[2].Weight = -5, 2, 5
	m := plan(t, Input{Generation: 1, Shards: 800, Members: of}).Map
	require.Equal(t, []int{100, 200, 500}, loads(m))

	of[1].Weight, of[2].Weight = 1, int(^uint(0)>>1)
	m = plan(t, Input{Generation: 2, Shards: 800, Current: m, Members: of, Mode: Rebalance}).Map
	require.Equal(t, []int{1, 799}, loads(m), "a share below one shard is rounded up for the one who comes first")
}

// A repair fills up the member with the fewest shards, and leaves the rest to a later plan.
func TestRepairGivesToWhoeverIsFurthestBelow(t *testing.T) {
	of := members(4)
	m := plan(t, Input{Generation: 1, Shards: 120, Members: of[:3]}).Map // 40 each
	r := plan(t, Input{Generation: 2, Shards: 120, Current: m, Members: of[1:]})
	require.Equal(t, Result{Map: r.Map, Assigned: 40}, r)
	require.Equal(t, []int{40, 40, 40}, loads(r.Map), "all to the one who has none")
	r = plan(t, Input{Generation: 2, Shards: 120, Current: m, Members: append(of[1:], member(4))})
	require.Equal(t, []int{40, 40, 20, 20}, loads(r.Map))
}

// underWay returns a map of a, b and c in which shard 0 is moving from a to b.
func underWay(t *testing.T) (m *Map, a, b, c Member) {
	t.Helper()
	a, b, c = member(0), member(1), member(2)
	m = plan(t, Input{Generation: 5, Shards: 1, Members: []Member{a}}).Map
	a.Excluded = true
	m = plan(t, Input{Generation: 6, Shards: 1, Current: m, Members: []Member{a, b}}).Map
	requireShard(t, m, b.Owner, 6, &Move{0, a.Owner, 6})
	a.Excluded = false
	return m, a, b, c
}

func requireShard(t *testing.T, m *Map, owner Owner, epoch int64, want *Move) {
	t.Helper()
	o, _ := m.Owner(0)
	require.Equal(t, owner, o)
	require.Equal(t, epoch, m.Epoch(0))
	var is *Move
	if move, open := m.Move(0); open {
		is = &move
	}
	require.Equal(t, want, is)
}

func TestAnOpenMoveIsLeftAlone(t *testing.T) {
	m, a, b, c := underWay(t)
	for _, mode := range []Mode{Repair, Rebalance} {
		require.Same(t, m, plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a, b, c}, Mode: mode}).Map)
	}
	require.Same(t, m, plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a, b}, Done: allDone}).Map,
		"that it is done is not worth a write")
}

// The target may serve already, so its own release must be waited for.
func TestAnExcludedTargetKeepsItsShardUntilTheMoveIsDone(t *testing.T) {
	m, a, b, c := underWay(t)
	b.Excluded = true
	in := Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a, b, c}}
	require.Same(t, m, plan(t, in).Map)
	in.Done = allDone
	r := plan(t, in)
	require.Equal(t, 1, r.Drained)
	requireShard(t, r.Map, a.Owner, 7, &Move{0, b.Owner, 7})
}

func TestTheNextOwnerInherits(t *testing.T) {
	m, a, _, c := underWay(t)
	a.Excluded = true
	r := plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a, c}})
	require.Equal(t, 1, r.Assigned)
	requireShard(t, r.Map, c.Owner, 7, &Move{0, a.Owner, 6})

	a.Excluded = false
	r = plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a}})
	requireShard(t, r.Map, a.Owner, 7, &Move{0, a.Owner, 6}) // from itself

	r = plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a, c}, Done: allDone})
	requireShard(t, r.Map, a.Owner, 7, nil)
	r = plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{c}})
	requireShard(t, r.Map, c.Owner, 7, nil) // both are gone
}

func TestANewIncarnationIsSomebodyElse(t *testing.T) {
	a := member(0)
	m := plan(t, Input{Generation: 5, Shards: 1, Members: []Member{a}}).Map
	a.Incarnation += 100
	r := plan(t, Input{Generation: 6, Shards: 1, Current: m, Members: []Member{a}})
	require.Equal(t, 1, r.Assigned)
	requireShard(t, r.Map, a.Owner, 6, nil)
}

// The open move is kept for the member that takes the shard at last.
func TestNobodyCanTake(t *testing.T) {
	m, a, b, c := underWay(t)
	a.Excluded, b.Excluded = true, true
	for _, of := range [][]Member{nil, {a}, {a, b}, {b}} {
		r := plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: of})
		require.Equal(t, Result{Map: m}, r)
	}
	requireShard(t, plan(t, Input{Generation: 7, Shards: 1, Current: m, Members: []Member{a, c}}).Map, c.Owner, 7,
		&Move{0, a.Owner, 6})
	require.Nil(t, plan(t, Input{Generation: 7, Shards: 1, Members: []Member{a}}).Map, "not even a first one")
}

// A member with more open moves than its share keeps them, and the others share the rest.
func TestPinsAboveAQuota(t *testing.T) {
	of := members(4)
	m := plan(t, Input{Generation: 1, Shards: 90, Members: of[:1]}).Map
	of[0].Excluded = true
	m = plan(t, Input{Generation: 2, Shards: 90, Current: m, Members: of[:2]}).Map // all to 1, open
	of[0].Excluded = false
	require.Same(t, m, plan(t, Input{Generation: 3, Shards: 90, Current: m, Members: of, Mode: Rebalance}).Map)
	half := func(move Move) bool { return move.Shard >= 40 }
	r := plan(t, Input{Generation: 3, Shards: 90, Current: m, Members: of, Mode: Rebalance, Done: half})
	require.Equal(t, 50, r.Rebalanced)
	require.Equal(t, []int{17, 40, 17, 16}, loads(r.Map))
}

// Every member reads the map after every change, so its length matters. Here each restart distributes the
// shards of one member over all others. They come back together, because the others lose the shards that they
// received last.
func TestTheMapStaysShort(t *testing.T) {
	of := members(100)
	in := Input{Generation: 1_000_000, Shards: shard.DefaultCount, Members: of, Done: allDone, Mode: Rebalance}
	in.Current = plan(t, in).Map
	require.Less(t, len(in.Current.Encode()), 9_000)
	for i := range 60 {
		restarted := &of[i*37%len(of)]
		for _, excluded := range []bool{true, false} {
			restarted.Excluded = excluded
			in.Generation++
			in.Current = plan(t, in).Map
		}
		restarted.Incarnation = in.Generation
		in.Generation++
		in.Current = plan(t, in).Map
	}
	require.Less(t, len(in.Current.Encode()), 35_000)
}

func TestPlanRefuses(t *testing.T) {
	m := firstMap(t, 8, 2)
	a := member(0)
	for message, in := range map[string]Input{
		"cannot plan the shards: 0 shards are not between 1 and 65536": {Generation: 2},
		"cannot plan the shards: 65537 shards are not between 1 and 65536": {Generation: 2,
			Shards: shard.MaxCount + 1},
		"cannot plan the shards: generation 0 is not positive": {Shards: 8},
		"cannot plan the shards: generation 1 is not after the map's 1": {Generation: 1,
			Shards: 8, Current: m},
		"cannot plan the shards: there is no mode 2": {Generation: 2,
			Shards: 8, Mode: 2},
		"cannot plan the shards: the map has 8 shards and not 9: start every member with the map's number": {Generation: 2,
			Shards: 9, Current: m},
		`cannot plan the shards: member "10.0.0.100:47001" at incarnation 1 is there twice`: {Generation: 2, Shards: 8,
			Members: []Member{a, member(1), a}},
	} {
		_, err := Plan(in)
		require.ErrorIs(t, err, ErrBadInput)
		require.EqualError(t, err, message)
	}
}

// One member's odd key must not keep the others from planning.
func TestWhoDoesNotFitIntoAMapIsPassedOver(t *testing.T) {
	odd := []Member{{Owner: Owner{"\xff", 1}}, {Owner: Owner{"", 1}}, {Owner: Owner{"a", 0}}, {Owner: Owner{"a", -1}}}
	require.Nil(t, plan(t, Input{Generation: 1, Shards: 8, Members: odd}).Map)
	m := plan(t, Input{Generation: 1, Shards: 8, Members: append(odd, member(0))}).Map
	require.Equal(t, []Load{{member(0).Owner, 8}}, m.Loads())
}

// A first plan that etcd commits late, or again, after an out-of-band deletion of the map written meanwhile,
// still has epochs after that map's.
func TestEpochsGrowThoughAPlanIsLate(t *testing.T) {
	late := plan(t, Input{Generation: 3, Shards: 8, Members: members(2)}).Map
	first := late.NotBefore(4) // as it was first written
	second := plan(t, Input{Generation: 9, Shards: 8, Current: first, Members: members(3), Mode: Rebalance}).Map
	again := late.NotBefore(20)
	require.Equal(t, int64(20), again.Generation())
	for shard := range 8 {
		require.Equal(t, int64(20), again.Epoch(shard))
		require.Greater(t, again.Epoch(shard), second.Epoch(shard))
		require.Contains(t, []int64{4, 9}, second.Epoch(shard), "what stays keeps its epoch")
	}
	require.Same(t, second, second.NotBefore(4), "it was written over the first")
	require.Equal(t, int64(3), late.Generation(), "it is not altered")

	unowned, err := DecodeMap([]byte(`{"version":1,"shards":1,"generation":3,"grants":[],"moves":[]}`))
	require.NoError(t, err)
	require.Zero(t, unowned.NotBefore(5).Epoch(0), "a shard without an owner has no epoch")
}
