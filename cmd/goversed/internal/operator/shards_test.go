package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/test/nodetest"
)

func TestPrintShards(t *testing.T) {
	t.Parallel()
	many := "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30"
	v := shard.Table{Count: 100, Generation: 7, Balance: shard.Balance{Least: 16, Most: 60}, Unowned: "90-99",
		OpenMoves: 1,
		Owners: []shard.OwnerRow{
			{Address: "a:1", State: shard.Alive, Weight: 2, Count: 16, MayServe: 15, Shards: many},
			{Address: "b:1", State: shard.Gone, Count: 60, Shards: "30-89"},
			{Address: "c:1", State: shard.Alive, Weight: 1},
		},
		Moves: []shard.MoveRow{{From: "b:1", To: "a:1", Since: 7, Done: true, Count: 1, Shards: "4"}, {From: "b:1",
			To: "a:1", Since: 7, WaitsFor: "b:1", Count: 1, Shards: "6"}},
	}
	var out strings.Builder
	require.NoError(t, PrintShards(&out, v, false))
	require.Equal(t, `shards    100, of which 15 may be served
map       generation 7
balance   16 to 60 an owner
moves     1 open
unowned   90-99

OWNER  STATE  WEIGHT  COUNT  MAY SERVE  SHARDS
a:1    alive  2       16     15         0,2,4,6,8,10,12,14,16,18,20,22,24,26,28 and 1 more
b:1    gone   -       60     0          30-89
c:1    alive  1       0      0          -

FROM  TO   COUNT  SINCE  STATE          SHARDS
b:1   a:1  1      7      done           4
b:1   a:1  1      7      waits for b:1  6
`, out.String())
	out.Reset()
	require.NoError(t, PrintShards(&out, v, true))
	require.Contains(t, out.String(), `"shards":"`+many+`"`)
	require.Error(t, PrintShards(fullWriter{}, v, false))
}

// fullWriter is a writer that fails.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestPrintPreview(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, PrintPreview(&out, shardview.Preview{Count: 8}, false))
	require.Equal(t, "8 shards, no map yet\nnothing would move\n", out.String())
	out.Reset()
	require.NoError(t, PrintPreview(&out, shardview.Preview{Count: 8, Generation: 3, OpenMoves: 2,
		Nodes: []shardview.NodeLoad{{Address: "a:1", Now: 4, Then: 8}},
		Steps: []shardview.PlanStep{{Assigned: 4, Transfers: []shardview.Transfer{{Reason: shardview.Assigned, To: "a:1",
			Count:  4,
			Shards: "4-7"}}},
			{AfterSeconds: 1.5, Drained: 2, Rebalanced: 1, Transfers: []shardview.Transfer{}}}}, false))
	require.Equal(t, `8 shards, map generation 3
moves that are open, and left alone: 2

at once: 4 assigned (no live node has them)
WHY       FROM  TO   COUNT  SHARDS
assigned  -     a:1  4      4-7

after 1.5s: 2 drained (their owner leaves or gets none), 1 rebalanced (for an even load)
WHY  FROM  TO  COUNT  SHARDS

NODE  NOW  THEN
a:1   4    8
`, out.String())
}

// Nodes without sharding, and a map that cannot be decoded.
func TestShardsThatAreNotThere(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding.Off = true }))
	o := openOperator(t, c)
	_, err := o.Shards(testContext(t))
	require.ErrorIs(t, err, shardview.ErrNoMap)
	require.ErrorContains(t, err, "goversed shards plan shows what it waits for")
	f, err := o.DryRun(testContext(t), shardview.Settings{MinMembers: 1}, shardview.SupposedChange{})
	require.NoError(t, err)
	require.Contains(t, f.Remark, "run without sharding")

	_, err = c.Client().Put(testContext(t), nodetest.Keys.ShardMap(), "{")
	require.NoError(t, err)
	_, err = o.Shards(testContext(t))
	require.ErrorIs(t, err, sharding.ErrBadMap)
	require.ErrorContains(t, err, "delete /goverse/shards/map")
	_, err = o.DryRun(testContext(t), shardview.Settings{MinMembers: 1}, shardview.SupposedChange{})
	require.ErrorIs(t, err, sharding.ErrBadMap)
}

// Without a leader no shard moves.
func TestNothingMovesWhereNobodyLeads(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Observer = true }))
	o := openOperator(t, c)
	f, err := o.DryRun(testContext(t), shardview.Settings{MinMembers: 1}, shardview.SupposedChange{})
	require.NoError(t, err)
	require.Empty(t, f.Steps)
	require.Equal(t, []shardview.NodeLoad{{Address: c.Node(0).Address()}}, f.Nodes)
	require.Equal(t, "there is no leader: no shard moves until a node leads", f.Remark)
	f, err = o.DryRun(testContext(t), shardview.Settings{MinMembers: 1},
		shardview.SupposedChange{Join: []shardview.Joiner{{Address: "a:1"}}})
	require.NoError(t, err)
	require.NotEmpty(t, f.Steps, "that one would lead")
}
