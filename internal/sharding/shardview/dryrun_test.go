package shardview

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

var settings = Settings{Window: 2 * time.Second, MinMembers: 1}

func dryRun(t *testing.T, w *world, cfg Settings, suppose SupposedChange) Preview {
	t.Helper()
	f, err := DryRun(w.snapshot(), cfg, suppose)
	require.NoError(t, err)
	return f
}

func TestDryRunRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("a:1")
	w.plan(sharding.Repair)
	require.Equal(t, Preview{Count: 12, Generation: 3, Steps: []PlanStep{}, Nodes: []NodeLoad{{"a:1", 12, 12}}},
		dryRun(t, w,
			settings, SupposedChange{}))
}

func TestDryRunAJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("a:1")
	w.plan(sharding.Repair)
	before := w.snapshot()
	f := dryRun(t, w, settings, SupposedChange{Join: []Joiner{{"b:1", 2}, {"0:1", 0}}})
	require.Equal(t, []PlanStep{{AfterSeconds: 2, Rebalanced: 9, Transfers: []Transfer{
		{
			Reason: Rebalanced,
			From:   "a:1",
			To:     "0:1",
			Count:  3,
			Shards: "3-5",
		}, {Reason: Rebalanced, From: "a:1", To: "b:1", Count: 6,
			Shards: "6-11"},
	}}}, f.Steps)
	require.Equal(t, []NodeLoad{{"0:1", 0, 3}, {"a:1", 12, 3}, {"b:1", 0, 6}}, f.Nodes)
	require.Equal(t, before, w.snapshot(), "what is supposed changes nothing")

	cfg := settings
	cfg.Window = 0
	require.Zero(t, dryRun(t, w, cfg, SupposedChange{Join: []Joiner{{"b:1", 1}}}).Steps[0].AfterSeconds)
}

// Shards of a dead member are repaired before the load is rebalanced, and a leaving member is drained
// immediately.
func TestDryRunCrashAndLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, address := range []string{"a:1", "b:1", "c:1"} {
		w.join(address)
	}
	w.plan(sharding.Repair)
	f := dryRun(t, w, settings, SupposedChange{Leave: []string{"c:1"}})
	require.Len(t, f.Steps, 1)
	require.Equal(t, 4, f.Steps[0].Drained)
	require.Zero(t, f.Steps[0].AfterSeconds)
	require.Equal(t, []NodeLoad{{"a:1", 4, 6}, {"b:1", 4, 6}, {"c:1", 4, 0}}, f.Nodes)

	w.leave("c:1")
	w.join("d:1", func(r *state.Record) { r.Weight = 4 })
	f = dryRun(t, w, settings, SupposedChange{})
	require.Len(t, f.Steps, 2)
	require.Equal(t, 4, f.Steps[0].Assigned)
	require.Equal(t, []Transfer{{Reason: Assigned, From: "c:1", To: "d:1", Count: 4, Shards: "8-11"}},
		f.Steps[0].Transfers)
	require.Equal(t, PlanStep{AfterSeconds: 2, Rebalanced: 4, Transfers: []Transfer{
		{
			Reason: Rebalanced,
			From:   "a:1",
			To:     "d:1",
			Count:  2,
			Shards: "2-3",
		}, {Reason: Rebalanced, From: "b:1", To: "d:1", Count: 2,
			Shards: "6-7"}}}, f.Steps[1])
	require.Equal(t, []NodeLoad{{"a:1", 4, 2}, {"b:1", 4, 2}, {"c:1", 4, 0}, {"d:1", 0, 8}}, f.Nodes)
}

// An open move is left alone.
func TestDryRunBesideOpenMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("a:1")
	w.plan(sharding.Repair)
	w.join("b:1")
	w.plan(sharding.Rebalance)
	f := dryRun(t, w, settings, SupposedChange{Leave: []string{"b:1"}})
	require.Equal(t, 6, f.OpenMoves)
	require.Empty(t, f.Steps)
	w.released("a:1")
	f = dryRun(t, w, settings, SupposedChange{Leave: []string{"b:1"}})
	require.Zero(t, f.OpenMoves)
	require.Equal(t, 6, f.Steps[0].Drained)
}

func TestDryRunTheFirstMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Contains(t, dryRun(t, w, settings, SupposedChange{}).Remark, "no node can take shards")
	w.join("a:1", func(r *state.Record) { r.Labels = map[string]string{"role": "gateway"} })
	w.join("b:1")
	f := dryRun(t, w, settings, SupposedChange{})
	require.Equal(t, shards, f.Count, "as the members say")
	require.Equal(t, 12, f.Steps[0].Assigned)
	require.Equal(t, Transfer{Reason: Assigned, To: "a:1", Count: 6, Shards: "0-5"}, f.Steps[0].Transfers[0])
	require.Empty(t, f.Remark)

	few := settings
	few.MinMembers, few.Exclude = 2, map[string]string{"role": "gateway"}
	f = dryRun(t, w, few, SupposedChange{})
	require.Empty(t, f.Steps)
	require.Equal(t, "nothing is assigned before 2 nodes can take shards; there are 1", f.Remark)
	f = dryRun(t, w, few, SupposedChange{Join: []Joiner{{"c:1", 1}}})
	require.Equal(t, []NodeLoad{{"a:1", 0, 0}, {"b:1", 0, 6}, {"c:1", 0, 6}}, f.Nodes)
}

func TestDryRunErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("a:1")
	_, err := DryRun(w.snapshot(), settings, SupposedChange{Leave: []string{"b:1"}})
	require.ErrorIs(t, err, ErrUnknownNode)
	_, err = DryRun(w.snapshot(), settings, SupposedChange{Join: []Joiner{{"a:1", 1}}})
	require.ErrorIs(t, err, ErrKnownNode)
	_, err = DryRun(w.snapshot(), settings, SupposedChange{Join: []Joiner{{"b:1", 1}, {"b:1", 1}}})
	require.ErrorIs(t, err, ErrKnownNode)
	w.put(w.keys.ShardMap(), "{")
	_, err = DryRun(w.snapshot(), settings, SupposedChange{})
	require.ErrorIs(t, err, sharding.ErrBadMap)
}
