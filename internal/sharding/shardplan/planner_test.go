package shardplan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

const shards = 12

var cfg = Settings{Shards: shards, Window: time.Second, MinMembers: 1, Budget: 24}

// world is a cluster's range, and a planner that looks at it.
type world struct {
	t        *testing.T
	keys     state.Keys
	revision int64
	kvs      map[string]state.KV
	now      time.Time
	planner  Planner
}

func newWorld(t *testing.T, cfg Settings) *world {
	keys, err := state.NewKeys("/g")
	require.NoError(t, err)
	return &world{t: t, keys: keys, revision: 1, kvs: map[string]state.KV{}, now: time.Unix(1000, 0), planner: New(cfg)}
}

func (w *world) put(key, value string) {
	w.revision++
	kv := state.KV{Key: key, Value: []byte(value), CreateRevision: w.revision, ModRevision: w.revision}
	if old, ok := w.kvs[key]; ok {
		kv.CreateRevision = old.CreateRevision
	}
	w.kvs[key] = kv
}

func (w *world) remove(key string) {
	w.revision++
	delete(w.kvs, key)
}

func (w *world) join(address string, alter ...func(*state.Record)) {
	r := state.Record{Shards: shards}
	for _, f := range alter {
		f(&r)
	}
	w.put(w.keys.Node(address), r.Encode())
}

func (w *world) leave(address string) { w.remove(w.keys.Node(address)) }

// released makes the member at address report that it has released all shards that the map takes from it.
func (w *world) released(address string) {
	m := w.snapshot().Member(address)
	r := sharding.Report{Incarnation: m.Incarnation, Generation: w.snapshot().ShardMap.Generation()}
	w.put(w.keys.Released(address), string(r.Encode()))
}

func (w *world) snapshot() *state.Snapshot {
	var kvs []state.KV
	for _, kv := range w.kvs {
		kvs = append(kvs, kv)
	}
	return state.BuildSnapshot(w.keys, 1, w.revision, kvs)
}

// look returns the plan as text and writes it, or returns the time after which to look again.
func (w *world) look() string {
	w.t.Helper()
	var o Orders
	w.planner, o = w.planner.Decide(w.snapshot(), w.now)
	require.NoError(w.t, o.Err)
	if o.Plan.MovedShards() == 0 {
		if o.RecheckAfter > 0 {
			return "again in " + o.RecheckAfter.String()
		}
		return "nothing"
	}
	require.Equal(w.t, w.kvs[w.keys.ShardMap()].ModRevision, o.OverRevision)
	w.put(w.keys.ShardMap(), string(o.Plan.Map.Encode()))
	w.planner = w.planner.PlanWritten(o.Plan, w.now)
	return fmt.Sprintf("assigned %d, drained %d, rebalanced %d", o.Plan.Assigned, o.Plan.Drained, o.Plan.Rebalanced)
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// first looks after the delay of the first plan.
func (w *world) first() string {
	w.t.Helper()
	require.Equal(w.t, "again in 1s", w.look())
	w.pass(time.Second)
	return w.look()
}

// The first map waits for other members that start at the same time, but neither forever nor for a whole long
// window. The same applies after all owners were gone.
func TestFirstPlanWaitsForOthers(t *testing.T) {
	long := cfg
	long.Window = time.Hour
	for _, cfg := range []Settings{cfg, long} {
		w := newWorld(t, cfg)
		w.join("a:1")
		require.Equal(t, "again in 1s", w.look())
		w.pass(600 * time.Millisecond)
		w.join("b:1")
		require.Equal(t, "again in 1s", w.look())
		w.pass(time.Second)
		require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.look())
		require.Len(t, w.snapshot().ShardMap.Loads(), 2)
		w.leave("a:1")
		w.leave("b:1")
		w.look()
		w.join("a:1")
		require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first(), "all start again")
	}
	w := newWorld(t, cfg)
	for i := range 6 {
		w.join(fmt.Sprintf("n%d:1", i))
		if i < 5 {
			require.Equal(t, "again in 1s", w.look())
			w.pass(900 * time.Millisecond)
		}
	}
	require.Equal(t, "again in 500ms", w.look(), "five windows after the first one")
	w.pass(500 * time.Millisecond)
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.look())
}

func TestCrashesAtOnceJoinsAfterAWindow(t *testing.T) {
	w := newWorld(t, cfg)
	require.Equal(t, "nothing", w.look(), "nobody is there")
	w.join("a:1")
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first())
	require.Equal(t, "nothing", w.look())
	w.pass(400 * time.Millisecond)
	w.join("b:1")
	require.Equal(t, "again in 1s", w.look(), "the window begins anew")
	w.pass(400 * time.Millisecond)
	w.join("c:1")
	require.Equal(t, "again in 1s", w.look())
	w.pass(time.Second)
	require.Equal(t, "assigned 0, drained 0, rebalanced 8", w.look(), "once for all who joined")
	require.Equal(t, "nothing", w.look())
	w.released("a:1")
	require.Equal(t, "nothing", w.look(), "moves that are done are not worth a write")

	w.leave("c:1")
	require.Equal(t, "assigned 4, drained 0, rebalanced 0", w.look())
	w.join("a:1", func(r *state.Record) { r.Draining = true })
	require.Equal(t, "assigned 0, drained 6, rebalanced 0", w.look(), "who leaves is drained at once")
}

// Shards with an open move stay where they are. The rebalancing that they prevent follows when they are
// released, even if the members are still the same.
func TestWhatWasPinnedIsRebalancedWhenItIsReleased(t *testing.T) {
	w := newWorld(t, cfg)
	w.join("a:1")
	w.first()
	w.join("b:1")
	w.look()
	w.pass(time.Second)
	require.Equal(t, "assigned 0, drained 0, rebalanced 6", w.look())
	w.join("c:1")
	w.look()
	w.pass(time.Second)
	require.Equal(t, "assigned 0, drained 0, rebalanced 3", w.look(), "what b has is pinned to it")
	require.Equal(t, "nothing", w.look())
	w.pass(time.Minute)
	w.join("d:1")
	require.Equal(t, "again in 1s", w.look(), "who joins meanwhile is waited for as ever")
	w.leave("d:1")
	w.look()
	w.pass(time.Second)
	require.Equal(t, "nothing", w.look())
	w.released("a:1")
	require.Equal(t, "assigned 0, drained 0, rebalanced 2", w.look())
	w.released("b:1")
	require.Equal(t, "nothing", w.look())
}

func TestRebalancingIsNotPutOffForEver(t *testing.T) {
	w := newWorld(t, cfg)
	w.join("a:1")
	w.first()
	w.pass(2 * time.Second)
	require.Equal(t, "nothing", w.look())
	for i := range 6 {
		w.join(fmt.Sprintf("n%d:1", i))
		if i < 5 {
			require.Equal(t, "again in 1s", w.look(), "%d", i)
			w.pass(900 * time.Millisecond)
		}
	}
	require.Equal(t, "again in 500ms", w.look(), "five windows after the first joined")
	w.pass(500 * time.Millisecond)
	require.Equal(t, "assigned 0, drained 0, rebalanced 10", w.look())
}

// A node that comes and goes causes the necessary moves, and few others.
func TestBudget(t *testing.T) {
	w := newWorld(t, cfg)
	w.join("a:1")
	w.first()
	rebalanced := 0
	for range 20 {
		w.join("b:1")
		w.look()
		w.pass(time.Second)
		if got := w.look(); got == "assigned 0, drained 0, rebalanced 6" {
			rebalanced++
			w.released("a:1")
		} else {
			require.Contains(t, got, "again in")
		}
		w.leave("b:1")
		w.look()
		w.planner = w.planner.OffDuty() // for a moment
	}
	require.Equal(t, 5, rebalanced, "four from the budget of a minute, one from what 20 s give back")
	w.join("b:1")
	w.look()
	w.pass(time.Minute)
	require.Equal(t, "assigned 0, drained 0, rebalanced 6", w.look(), "and when it has come to rest")
}

func TestMinMembers(t *testing.T) {
	few := cfg
	few.MinMembers = 2
	w := newWorld(t, few)
	w.join("a:1")
	require.Equal(t, "nothing", w.look())
	w.join("b:1")
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first(), "both at once")
	w.pass(time.Second)
	require.Equal(t, "nothing", w.look())
	w.leave("b:1")
	require.Equal(t, "assigned 6, drained 0, rebalanced 0", w.look(), "afterwards fewer will do")
	w.leave("a:1")
	require.Equal(t, "nothing", w.look())
	w.join("a:1")
	require.Equal(t, "nothing", w.look(), "all were gone: it begins anew")
	w.join("b:1")
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first())
}

func TestWhoGetsNone(t *testing.T) {
	labelled := cfg
	labelled.Exclude = map[string]string{"role": "gateway"}
	w := newWorld(t, labelled)
	w.join("a:1", func(r *state.Record) { r.Labels = map[string]string{"role": "gateway"} })
	w.join("b:1", func(r *state.Record) { r.Shards = 0 })
	w.join("c:1", func(r *state.Record) { r.Shards = 99 })
	w.join("d:1", func(r *state.Record) { r.Draining = true })
	require.Equal(t, "nothing", w.look())
	w.join("e:1", func(r *state.Record) { r.Labels = map[string]string{"role": "worker"} })
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first())
	require.Equal(t, "e:1", w.snapshot().ShardMap.Loads()[0].Owner.Address)
	w.put(w.keys.Node("e:1"), "unreadable")
	require.Equal(t, "again in 1s", w.look(), "nobody is left to take them, and it may still serve")
}

func TestPlannerThatTakesNoPart(t *testing.T) {
	off := cfg
	off.Shards = 0
	w := newWorld(t, off)
	w.join("a:1", func(r *state.Record) { r.Shards = 0 })
	require.Equal(t, "nothing", w.look())
	w.join("b:1")
	w.join("c:1", func(r *state.Record) { r.Shards = 99 })
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first(), "as many as the first who takes part works with")
}

func TestMapThatCannotBeRead(t *testing.T) {
	w := newWorld(t, cfg)
	w.join("a:1")
	w.put(w.keys.ShardMap(), "{")
	_, o := w.planner.Decide(w.snapshot(), w.now)
	require.ErrorIs(t, o.Err, sharding.ErrBadMap)
	require.Zero(t, o.Plan.MovedShards())
	w.remove(w.keys.ShardMap())
	require.Equal(t, "assigned 12, drained 0, rebalanced 0", w.first())
	require.Greater(t, w.snapshot().ShardMap.Generation(), int64(3), "epochs go on to grow")
}
