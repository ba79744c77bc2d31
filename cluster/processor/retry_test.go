package processor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// moody is a handler that fails for some events.
type moody struct {
	handled
	mu    sync.Mutex
	fails map[int]error
}

func (m *moody) handle(ctx context.Context, e processor.Event[int]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails[e.Value]; err != nil {
		return err
	}
	return m.handled.handle(ctx, e)
}

func (m *moody) set(event int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails[event] = err
}

func (m *moody) config(checkpoint processor.Checkpoint, source processor.Source[int]) processor.Config[int] {
	return processor.Config[int]{Name: "it", Source: source, Checkpoint: checkpoint, Handler: m.handle, MaxAttempts: 1,
		CheckInterval: time.Millisecond}
}

func retryIt(t *testing.T, m processor.Manager, at processor.Position) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return processor.Retry(ctx, m, "it", at)
}

// A parked event is handled again on request, once, with the position where it is. If it fails, its record says why.
func TestRetry(t *testing.T) {
	t.Parallel()
	source, checkpoint := &numbers{last: 6}, &processor.Memory{}
	handler := &moody{fails: map[int]error{1: errOops, 3: errOops, 4: errOops, 6: errOops}}
	p, end := run(t, handler.config(checkpoint, source))
	eventually(t, func() bool { return p.Status().Position == "6" }, "all are handled or parked")
	require.Equal(t, []int{2, 5}, handler.all())
	require.ErrorIs(t, retryIt(t, checkpoint, "2"), processor.ErrNotParked)

	handler.set(3, errors.New("not yet"))
	err := retryIt(t, checkpoint, "3")
	require.ErrorIs(t, err, processor.ErrRetryFailed)
	require.ErrorContains(t, err, "not yet")
	record, err := checkpoint.ParkedEvent(t.Context(), "it", "3")
	require.NoError(t, err)
	require.Equal(t, 2, record.Attempts)
	require.Equal(t, "not yet", record.Error)
	handler.set(3, fmt.Errorf("%w today", processor.ErrUnavailable))
	require.ErrorIs(t, retryIt(t, checkpoint, "3"), processor.ErrRetryFailed)
	record, err = checkpoint.ParkedEvent(t.Context(), "it", "3")
	require.NoError(t, err)
	require.Equal(t, 2, record.Attempts, "no fault of the event's")

	for _, event := range []int{1, 3, 4, 6} {
		handler.set(event, nil)
	}
	require.NoError(t, retryIt(t, checkpoint, "3"))
	require.NoError(t, retryIt(t, checkpoint, "1"))
	require.NoError(t, retryIt(t, checkpoint, "6"))
	source.grow(1)
	eventually(t, func() bool { return p.Status().Position == "7" }, "it goes on")
	require.Equal(t, []int{2, 5, 3, 1, 6, 7}, handler.all())
	require.ErrorIs(t, retryIt(t, checkpoint, "3"), processor.ErrNotParked)

	// While the processor is paused, the request waits, also for the next leader.
	pauseIt(t, checkpoint)
	brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, processor.Retry(brief, checkpoint, "it", "4"), processor.ErrNotAcknowledged)
	end()
	resumeIt(t, checkpoint)
	_, end = run(t, handler.config(checkpoint, source))
	eventually(t, func() bool { return len(handler.all()) == 7 }, "the next leader handles it")
	require.ErrorIs(t, retryIt(t, checkpoint, "none"), processor.ErrNotParked)
	end()
	require.Equal(t, []int{2, 5, 3, 1, 6, 7, 4}, handler.all())
}

// gappy is a source that no longer has some events.
type gappy struct {
	numbers
	gone []int
}

func (g *gappy) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	if after == "broken" {
		return nil, errOops
	}
	events, err := g.numbers.Read(ctx, after, limit+len(g.gone))
	events = slices.DeleteFunc(events, func(e processor.Event[int]) bool { return slices.Contains(g.gone, e.Value) })
	return events[:min(len(events), limit)], err
}

// An event that the source does not return any more stays parked, and holds up nothing.
func TestRetryOfAnEventThatIsGone(t *testing.T) {
	t.Parallel()
	source, checkpoint, handler := &gappy{numbers: numbers{last: 5}, gone: []int{3}}, &processor.Memory{}, &moody{}
	m, err := checkpoint.Claim(t.Context(), "it", 0)
	require.NoError(t, err)
	_, err = checkpoint.Advance(t.Context(), "it", m, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: "4", Parked: []processor.Parked{{Position: "3", After: "2"},
			{Position: "2", After: "broken"}, {Position: "1"}}}, nil
	})
	require.NoError(t, err)
	p, end := run(t, handler.config(checkpoint, source))
	require.ErrorContains(t, retryIt(t, checkpoint, "3"), "does not return the event any more")
	require.ErrorContains(t, retryIt(t, checkpoint, "2"), "oops")
	require.NoError(t, retryIt(t, checkpoint, "1"), "after the beginning")
	eventually(t, func() bool { return p.Status().Position == "5" }, "it goes on")
	end()
	require.ElementsMatch(t, []int{1, 5}, handler.all())
}

// After a rewind, an event that was parked is handled once: as the processor comes to it, and not by a retry. Its
// record is removed then.
func TestReplay(t *testing.T) {
	t.Parallel()
	source, checkpoint := &numbers{last: 8}, &processor.Memory{}
	handler := &moody{fails: map[int]error{2: errOops, 4: errOops, 6: errOops, 8: errOops}}
	p, end := run(t, handler.config(checkpoint, source))
	eventually(t, func() bool { return p.Status().Position == "8" }, "all are handled or parked")
	end()
	for _, event := range []int{2, 4, 8} {
		handler.set(event, nil)
	}
	require.NoError(t, checkpoint.RequestRetry(t.Context(), "it", "2"))
	require.NoError(t, checkpoint.RequestRetry(t.Context(), "it", "4"))
	require.NoError(t, checkpoint.Rewind(t.Context(), "it", "3"))
	p, end = run(t, handler.config(checkpoint, source))
	eventually(t, func() bool { return len(handler.all()) == 4+5 }, "the retry before the rewind comes last")
	end()
	require.Equal(t, []int{1, 3, 5, 7, 4, 5, 7, 8, 2}, handler.all())
	parked, err := checkpoint.Parked(t.Context(), "it")
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.EqualValues(t, "6", parked[0].Position, "it failed again")
	s, err := checkpoint.Look(t.Context(), "it")
	require.NoError(t, err)
	require.Empty(t, s.Replay)
}

// A replay is over if the source has nothing more, even if the last event that was done is gone.
func TestReplayOfAnEventThatIsGone(t *testing.T) {
	t.Parallel()
	source, checkpoint := &gappy{numbers: numbers{last: 4}}, &processor.Memory{}
	handler := &moody{fails: map[int]error{1: errOops}}
	p, end := run(t, handler.config(checkpoint, source))
	eventually(t, func() bool { return p.Status().Position == "4" }, "all are handled or parked")
	end()
	source.gone = []int{4}
	handler.set(1, nil)
	require.NoError(t, checkpoint.Rewind(t.Context(), "it", "2"))
	_, end = run(t, handler.config(checkpoint, source))
	require.NoError(t, retryIt(t, checkpoint, "1"))
	end()
	require.Equal(t, []int{2, 3, 4, 3, 1}, handler.all())
}
