package operator

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

func TestPrintFormatChanged(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, PrintEvent(&out, event.Event{Type: event.FormatChanged, Node: "b:1", ClusterFormat: 2}, false))
	require.Contains(t, out.String(), "format_changed     b:1  format 2\n")
}

// Text shows releases and formats only while they differ; JSON always has them.
func TestStatusShowsReleasesThatDiffer(t *testing.T) {
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	older := &state.Member{Address: "b:1", Incarnation: 2}
	newer := &state.Member{Address: "a:1", Incarnation: 1, Record: state.Record{Goverse: "v0.2.0",
		Formats: format.Range{Oldest: 1, Newest: 2}}}
	print := func(asJSON bool, members ...*state.Member) string {
		var out bytes.Buffer
		require.NoError(t, PrintStatus(&out, newDetails(&state.Snapshot{Keys: keys, Members: members}), asJSON))
		return out.String()
	}
	same := print(false, newer)
	require.NotContains(t, same, "format")
	require.NotContains(t, same, "v0.2.0")
	mixed := print(false, newer, older)
	require.Contains(t, mixed, "format    1 (decided by b:1, which runs the oldest release)\n")
	require.Contains(t, mixed, "Goverse v0.2.0, format 1 to 2\n")
	require.Contains(t, mixed, "Goverse of before formats, format 1\n")

	var d Details
	require.NoError(t, json.Unmarshal([]byte(print(true, newer)), &d))
	require.Equal(t, 2, d.Format)
	require.Equal(t, "a:1", d.FormatBy)
	require.Equal(t, "v0.2.0", d.Members[0].Goverse)
	require.Equal(t, 2, d.Members[0].NewestFormat)
}
