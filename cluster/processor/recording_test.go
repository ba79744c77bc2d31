package processor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/processor"
)

// full is a store that stores nothing.
type full struct{ processor.Memory }

var errFull = errors.New("the store is full")

func (*full) RequestPause(context.Context, string, processor.PauseRequest) error { return errFull }

// Each request is recorded once, after it was stored, with its operator.
func TestRecordRequests(t *testing.T) {
	t.Parallel()
	var got []event.Event
	keep := func(e event.Event) { got = append(got, e) }
	m := &processor.Memory{}
	r := processor.RecordRequests(processor.RecordRequests(m, keep), keep)
	mark, err := m.Claim(t.Context(), "it", 1)
	require.NoError(t, err)
	_, err = m.Advance(t.Context(), "it", mark, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: "5", Parked: []processor.Parked{{Position: "4"}}}, nil
	})
	require.NoError(t, err)
	long := strings.Repeat("x", processor.MaxPosition)
	ctx := processor.WithOperator(t.Context(), processor.Operator{By: "ann", Reason: strings.Repeat("y", 5000)})
	began := time.Now()
	pause := processor.PauseRequest{Paused: true, By: "bob", Reason: "because"}
	require.NoError(t, r.RequestPause(t.Context(), "it", pause))
	require.NoError(t, r.RequestPause(t.Context(), "it", processor.PauseRequest{}))
	require.NoError(t, r.RequestRetry(ctx, "it", "4"))
	require.NoError(t, r.Forget(ctx, "it", "4"))
	require.NoError(t, r.Rewind(ctx, "it", processor.Position(long)))
	require.NoError(t, r.Unfence(ctx, "it"))
	why := strings.Repeat("y", 1024)
	want := []event.Event{
		{Type: event.ProcessorPaused, By: "bob", Reason: "because"}, {Type: event.ProcessorResumed},
		{Type: event.ProcessorRetried, By: "ann", Reason: why, Position: "4"},
		{Type: event.ProcessorDropped, By: "ann", Reason: why, Position: "4"},
		{Type: event.ProcessorRewound, By: "ann", Reason: why, From: "5", Position: long[:512] + "..."},
		{Type: event.ProcessorUnfenced, By: "ann", Reason: why},
	}
	require.Len(t, got, len(want))
	ids := map[string]bool{}
	for i, e := range got {
		require.False(t, ids[e.ID], "an id of its own")
		ids[e.ID] = true
		require.WithinRange(t, e.Time, began, time.Now())
		want[i].ID, want[i].Time, want[i].Processor = e.ID, e.Time, "it"
		require.Equal(t, want[i], e)
	}

	require.ErrorIs(t, r.RequestRetry(ctx, "it", "4"), processor.ErrNotParked)
	require.ErrorIs(t, processor.RecordRequests(&full{}, keep).RequestPause(ctx, "it", processor.PauseRequest{}), errFull)
	require.Len(t, got, len(want), "what was not stored is not recorded")
}
