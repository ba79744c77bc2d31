package httpapi

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/shard"
)

func TestShards(t *testing.T) {
	t.Parallel()
	code, body := get(t, follower(), "/cluster/shards")
	require.Equal(t, http.StatusOK, code)
	move := func(done bool, count float64, shards string) map[string]any {
		m := map[string]any{"from": leaderAt, "from_incarnation": 2.0, "to": followerAt, "to_incarnation": 4.0, "since": 5.0,
			"done": done, "count": count, "shards": shards}
		if !done {
			m["waits_for"] = leaderAt
		}
		return m
	}
	require.Equal(t, map[string]any{
		"node_id": followerAt, "held": map[string]any{"acquiring": 1.0, "serving": 2.0, "releasing": 3.0}, "waiting": 1.0,
		"count": 8.0, "generation": 5.0, "revision": 9.0, "balance": map[string]any{"least": 4.0,
			"most": 4.0}, "open_moves": 1.0,
		"owners": []any{
			map[string]any{"address": leaderAt, "incarnation": 2.0, "state": "alive", "weight": 1.0, "count": 4.0,
				"may_serve": 4.0, "shards": "0-3"},
			map[string]any{"address": followerAt, "incarnation": 4.0, "state": "alive", "weight": 1.0, "count": 4.0,
				"may_serve": 3.0, "shards": "4-7"},
		},
		"moves":  []any{move(true, 3, "4-5,7"), move(false, 1, "6")},
		"epochs": []any{map[string]any{"epoch": 3.0, "shards": "0-3"}, map[string]any{"epoch": 5.0, "shards": "4-7"}},
	}, body)
}

// Each reason for having nothing to show is reported in one line.
func TestNoShards(t *testing.T) {
	t.Parallel()
	off, none, bad := follower(), follower(), follower()
	off.status.Shards = shard.Stats{}
	none.shards = shardSnapshot("")
	bad.shards = shardSnapshot("{")
	for says, tc := range map[string]struct {
		f    *fake
		code int
	}{
		"sharding is off on this node": {off, http.StatusNotFound},
		"this node is starting":        {starting(), http.StatusServiceUnavailable},
		"the node has stopped":         {stopped(), http.StatusServiceUnavailable},
		"there is no shard map yet":    {none, http.StatusServiceUnavailable},
		"delete /goverse/shards/map":   {bad, http.StatusServiceUnavailable},
	} {
		code, body := get(t, tc.f, "/cluster/shards")
		require.Equal(t, tc.code, code, says)
		require.Contains(t, body["detail"], says)
		require.NotContains(t, body["detail"], "\n")
		w := call(New(tc.f, Options{}), http.MethodGet, "/cluster/shards")
		require.Equal(t, tc.code == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "", says)
	}
}

func TestShardMetrics(t *testing.T) {
	t.Parallel()
	f := follower()
	text := scrape(t, New(f, Options{}))
	for _, line := range []string{
		"goverse_shards 8", "goverse_shards_generation 5", "goverse_shards_owned 4", "goverse_shards_acquiring " +
			"1", "goverse_shards_serving 2",
		"goverse_shards_releasing 3", "goverse_shards_waiting 1", "goverse_shards_moves_open " +
			"1", "goverse_shards_plan_seconds 0.0015",
		"goverse_shards_plans_total 6", `goverse_shards_moves_total{kind="assigned"} 21`,
		`goverse_shards_moves_total{kind="drained"} 22`,
		`goverse_shards_moves_total{kind="rebalanced"} 23`, "# TYPE goverse_shards_moves_total counter",
		"# TYPE goverse_shards_handoff_pause_seconds histogram", `goverse_shards_handoff_pause_seconds_bucket{le="0.001"} 0`,
		`goverse_shards_handoff_pause_seconds_bucket{le="0.003"} 2`,
		`goverse_shards_handoff_pause_seconds_bucket{le="+Inf"} 3`,
		"goverse_shards_handoff_pause_seconds_sum 2", "goverse_shards_handoff_pause_seconds_count 3",
	} {
		require.Contains(t, text, line+"\n")
	}

	f.shards = shardSnapshot("")
	text = scrape(t, New(f, Options{}))
	require.Contains(t, text, "goverse_shards_owned 0\n", "without a map")
	require.Contains(t, text, "goverse_shards 8\n")
	require.NotContains(t, scrape(t, New(starting(), Options{})), "goverse_shards_")
}
