package eventlog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Requests of operators keep to their share, whether a node records them or goversed.
func TestCommandsKeepToTheirShare(t *testing.T) {
	ctx, client, keys := etcdtest.Context(t), etcdtest.Client(t), keysUnder(t, "/commands")
	own := event.Event{ID: "node_joined-1", Type: event.NodeJoined, Time: time.Now()}
	require.NoError(t, recordEvents(ctx, client, keys, []event.Event{own}))
	n := 0
	next := func() event.Event {
		n++
		return event.Event{ID: fmt.Sprintf("processor_paused-%04d", n), Type: event.ProcessorPaused, Time: time.Now()}
	}
	for n < maxCommands+40 {
		var batch []event.Event
		for range 40 {
			batch = append(batch, next())
		}
		require.NoError(t, RecordCommands(ctx, client, keys, batch[:maxBatch]))
		require.NoError(t, RecordCommands(ctx, client, keys, batch[maxBatch:]))
	}
	commands := event.Query{Types: []event.Type{event.ProcessorPaused}}
	got := list(t, client, keys, commands)
	require.Len(t, got, maxCommands)
	require.Equal(t, "processor_paused-0041", got[0].ID, "the oldest are gone")

	w := newWriter(programOf(client, keys, "a:1", 100).cfg)
	for range 30 {
		w.addPending(next(), true, 0)
	}
	require.NoError(t, w.recordDue(ctx, false, time.Now().Add(time.Second)))
	got = list(t, client, keys, commands)
	require.Len(t, got, 20, "a fifth of the log")
	require.Equal(t, "a:1", got[19].RecordedBy)
	require.Len(t, list(t, client, keys, event.Query{Types: []event.Type{event.NodeJoined}}), 1)

	// Where the deletion fails, it is tried again.
	more := []event.Event{next(), next()}
	require.NoError(t, recordEvents(ctx, client, keys, more))
	w.wroteCommands.Store(true)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.Error(t, w.recordDue(ended, false, time.Now()))
	require.Len(t, list(t, client, keys, commands), 22)
	require.NoError(t, w.recordDue(ctx, false, time.Now()))
	require.Len(t, list(t, client, keys, commands), 20)
}

// Every request of an operator has a type below the keys that are counted.
func TestCommandTypes(t *testing.T) {
	keys, n := keysUnder(t, "/types"), 0
	for _, typ := range event.Types() {
		if isCommand(typ) {
			n++
			require.Contains(t, keys.Event(string(typ)+"-1"), keys.CommandEvents())
		}
	}
	require.Equal(t, 6, n)
}
