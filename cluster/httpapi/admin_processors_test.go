package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest"
)

// oneEvent is a source with one event, at position 1.
type oneEvent struct{}

func (oneEvent) Read(_ context.Context, after processor.Position, _ int) ([]processor.Event[int], error) {
	if after != "" {
		return nil, nil
	}
	return []processor.Event[int]{{Position: "1"}}, nil
}

// The processors of the whole cluster are listed and managed at any node, here at the one that does not run them.
func TestManageAProcessor(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t)
	leading := c.Node(0).Cluster()
	p, err := processor.New(processor.Config[int]{Name: "views/a", Source: oneEvent{}, Checkpoint: leading.Checkpoints(),
		LeaderLock: processor.Election(leading.Elections(), "views/a"), CheckInterval: 10 * time.Millisecond, MaxAttempts: 1,
		Node: "node 0", Handler: func(context.Context, processor.Event[int]) error { return processor.ErrPoison }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	defer running.Wait()
	defer cancel()
	c.Eventually(func() bool { return p.Status().Position == "1" }, "it runs")

	const at = "processors/views%2Fa/"
	paused := does[ManagedProcessor](t, h, 200, at+"pause", `{"reason": "maintenance"}`)
	require.True(t, paused.Paused)
	require.True(t, paused.PauseAcknowledged)
	require.Equal(t, "maintenance", paused.PauseReason)
	require.Equal(t, "token ops", paused.PauseBy)
	require.Equal(t, "node 0", paused.Report.Node)
	require.True(t, paused.Report.Current)
	require.True(t, p.Status().Paused)
	require.False(t, does[ManagedProcessor](t, h, 200, at+"resume", "").Paused)

	refuses(t, h, 409, "refused", at+"retry", `{"position": "1"}`)
	refuses(t, h, 404, "unknown", at+"retry", `{"position": "2"}`)
	refuses(t, h, 400, "", at+"retry", `{}`)
	refuses(t, h, 400, "", at+"rewind", `{}`)
	require.Empty(t, does[ManagedProcessor](t, h, 200, at+"rewind", `{"to": "", "reason": "again"}`).Position)
	c.Eventually(func() bool { return p.Status().Parked == 2 }, "it handles the event again")
	require.EqualValues(t, 0, does[ManagedProcessor](t, h, 200, at+"drop", `{"position": "1"}`).Parked)
	does[ManagedProcessor](t, h, 200, at+"unfence", "{}")
	for _, verb := range []string{"pause", "resume", "unfence"} {
		refuses(t, h, 404, "unknown", "processors/other/"+verb, "{}")
	}

	all := readPage[AllProcessors](t, h, "/cluster/processors/all")
	require.Len(t, all.Processors, 1)
	require.Equal(t, "views/a", all.Processors[0].Name)
	require.False(t, all.Truncated)
	requireRecorded(t, c)

	parked := readPage[ParkedEvents](t, h, "/cluster/processors/views%2Fa/parked")
	require.Equal(t, ParkedEvents{Processor: "views/a", Parked: []ParkedEvent{}}, parked)
	require.Equal(t, 404, call(h, http.MethodGet, "/cluster/processors/other/parked").Code)
}

// requireRecorded requires the requests of TestManageAProcessor in the event log, with the caller.
func requireRecorded(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	want := []event.Event{
		{Type: event.ProcessorPaused, Reason: "maintenance"}, {Type: event.ProcessorResumed},
		{Type: event.ProcessorRetried, Position: "1"}, {Type: event.ProcessorRewound, From: "1", Reason: "again"},
		{Type: event.ProcessorDropped, Position: "1"}, {Type: event.ProcessorUnfenced},
	}
	var types []event.Type
	for _, e := range want {
		types = append(types, e.Type)
	}
	var got []event.Event
	c.Eventually(func() bool {
		log, _, err := c.Node(0).Cluster().Events().List(t.Context(), event.Query{Types: types})
		got = log
		return err == nil && len(log) == len(want)
	}, "the requests are in the log")
	for i, e := range got {
		require.Equal(t, []any{want[i].Type, "views/a", "token ops", want[i].Reason, want[i].From, want[i].Position},
			[]any{e.Type, e.Processor, e.By, e.Reason, e.From, e.Position})
		require.Equal(t, e.RecordedBy, e.Node)
		require.NotEmpty(t, e.Node)
	}
}

// readPage reads a page that must exist.
func readPage[T any](t *testing.T, h http.Handler, path string) (body T) {
	t.Helper()
	w := call(h, http.MethodGet, path)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return body
}
