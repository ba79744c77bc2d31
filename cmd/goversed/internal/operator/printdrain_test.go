package operator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDrainProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	lines := DrainProgress{Out: &out, Address: "a:1"}
	lines.Show(8, 8)
	lines.Show(3, 8)
	lines.End()
	require.Equal(t, "draining a:1, which has 8 shards\n", out.String())

	out.Reset()
	bars := DrainProgress{Out: &out, Address: "a:1", Columns: func() int { return 50 }}
	bars.End()
	require.Empty(t, out.String(), "nothing was drawn")
	bars.Show(8, 8)
	bars.Show(2, 8)
	bars.End()
	require.Equal(t, "\r\x1b[Kdraining a:1  [.............]  8 of 8 shards left"+
		"\r\x1b[Kdraining a:1  [#########....]  2 of 8 shards left\r\x1b[K", out.String())
	for _, columns := range []int{0, 1, 20, 40, 41, 80, 300} {
		for _, left := range []int{0, 1, 8191, 9000} {
			line := formatBar("127.0.0.1:47002", left, 8192, columns)
			require.LessOrEqual(t, len(line), max(columns-1, 0))
			require.Equal(t, columns > 70, strings.Contains(line, "["), line)
		}
	}
	require.Contains(t, formatBar("a:1", 0, 0, 80), "[########################################]  0 of 0 shards left")
}

func TestPrintDrained(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]Drained{
		"a:1 is empty: it gave up 1 shard in 250ms, and gets none until goversed drain --undo a:1, or until it starts " +
			"again\n": {Address: "a:1", Draining: true, Changed: true, Released: 1,
			Seconds: 0.25001},
		"a:1 is empty: it gave up 0 shards in 0s, and gets none until goversed drain --undo a:1, or until it starts " +
			"again; it leads on: goversed resign hands that over\n": {Address: "a:1", Draining: true, Leader: true},
		"a:1 may have shards again: it gets its share when the load is rebalanced\n": {Address: "a:1", Changed: true},
		"a:1 was not draining\n": {Address: "a:1"},
	} {
		var out strings.Builder
		require.NoError(t, PrintDrained(&out, d, false))
		require.Equal(t, want, out.String())
		require.Error(t, PrintDrained(fullWriter{}, d, false))
	}
	var out strings.Builder
	require.NoError(t, PrintDrained(&out, Drained{Address: "a:1", Incarnation: 3, Draining: true, Changed: true,
		Released: 8, Seconds: 0.5}, true))
	require.JSONEq(t, `{"address":"a:1","incarnation":3,"draining":true,"changed":true,
		"released":8,"seconds":0.5,"is_leader":false}`, out.String())
}
