package processor_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// faulty is a source that fails on request.
type faulty struct {
	numbers
	fail atomic.Pointer[func(after processor.Position) ([]processor.Event[int], error)]
}

func (f *faulty) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	if fail := f.fail.Load(); fail != nil {
		return (*fail)(after)
	}
	return f.numbers.Read(ctx, after, limit)
}

func (f *faulty) Lag(_ context.Context, after processor.Position) (int64, error) {
	if f.fail.Load() != nil {
		return 0, errOops
	}
	return f.behind(after), nil
}

// A failing source blocks all events, is reported, and recovers.
func TestSourceThatFails(t *testing.T) {
	t.Parallel()
	for says, fail := range map[string]func(processor.Position) ([]processor.Event[int], error){
		"oops": func(processor.Position) ([]processor.Event[int], error) { return nil, errOops },
		"twice in a row": func(after processor.Position) ([]processor.Event[int], error) {
			return []processor.Event[int]{{Position: "1"}, {Position: "1"}}, nil
		},
	} {
		source, done := &faulty{}, &handled{}
		source.last = 3
		source.fail.Store(&fail)
		p, end := run(t, processor.Config[int]{Name: "it", Source: source, Handler: done.handle,
			Checkpoint: &processor.Memory{}})
		eventually(t, func() bool { return p.Status().Failures > 3 && strings.Contains(p.Status().LastError, says) },
			"it is tried on")
		require.Empty(t, done.all())
		require.EqualValues(t, -1, p.Status().Lag)
		source.fail.Store(nil)
		eventually(t, func() bool { return p.Status().Position == "3" && p.Status().Lag == 0 }, "it goes on")
		end()
		require.Equal(t, upTo(3), done.all())
		require.EqualValues(t, -1, p.Status().Lag, "who does not process does not know")
	}
}

// lagging is a source that can be read, and fails on request when it is asked for the lag.
type lagging struct {
	numbers
	broken atomic.Bool
}

func (l *lagging) Lag(context.Context, processor.Position) (int64, error) {
	if l.broken.Load() {
		return 7, errOops
	}
	return 42, nil
}

// If the lag can no longer be measured, the last known lag is not shown.
func TestLagThatFails(t *testing.T) {
	t.Parallel()
	source, inside, goOn := &lagging{numbers: numbers{last: 1}}, make(chan struct{}), make(chan struct{})
	p, _ := run(t, processor.Config[int]{Name: "it", Source: source, Checkpoint: &processor.Memory{},
		LagInterval: time.Millisecond,
		Handler: func(context.Context, processor.Event[int]) error {
			close(inside)
			<-goOn
			return nil
		}})
	defer close(goOn)
	<-inside
	eventually(t, func() bool { return p.Status().Lag == 42 }, "it is known")
	source.broken.Store(true)
	eventually(t, func() bool { return p.Status().Lag == -1 && p.Status().Failures > 0 }, "it is not known, and why")
	require.Contains(t, p.Status().LastError, "oops")
	source.broken.Store(false)
	eventually(t, func() bool { return p.Status().Lag == 42 }, "it is known again")
}

// hiding is a source with events that it cannot show yet.
type hiding struct {
	numbers
	hidden       int64
	reads, asked atomic.Int64
}

func (h *hiding) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	h.reads.Add(1)
	return h.numbers.Read(ctx, after, limit)
}

func (h *hiding) Lag(_ context.Context, after processor.Position) (int64, error) {
	h.asked.Add(1)
	return h.behind(after) + h.hidden, nil
}

// If there is nothing to read, the source is asked for the lag at once, and only once.
func TestLagWhereNothingIsRead(t *testing.T) {
	t.Parallel()
	for _, hidden := range []int64{0, 7} {
		source, inside, goOn := &hiding{numbers: numbers{last: 3}, hidden: hidden}, make(chan struct{},
			3), make(chan struct{})
		p, end := run(t, processor.Config[int]{Name: "it", Source: source, Checkpoint: &processor.Memory{},
			LagInterval:  time.Hour,
			PollInterval: time.Millisecond, Handler: func(context.Context, processor.Event[int]) error {
				inside <- struct{}{}
				<-goOn
				return nil
			}})
		<-inside
		eventually(t, func() bool { return p.Status().Lag == 3+hidden }, "it is known")
		close(goOn)
		eventually(t, func() bool { return source.reads.Load() > 20 }, "nothing to read")
		eventually(t, func() bool { return p.Status().Lag == hidden }, "it is known again")
		end()
		require.LessOrEqual(t, source.asked.Load(), int64(3))
	}
}

// A source that signals new events is read at once.
func TestWoken(t *testing.T) {
	t.Parallel()
	source, done := &numbers{}, &handled{}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: source, Handler: done.handle,
		Checkpoint: &processor.Memory{}, PollInterval: time.Hour})
	for range 100 {
		source.grow(1)
	}
	eventually(t, func() bool { return p.Status().Position == "100" }, "nothing is missed")
	require.Equal(t, upTo(100), done.all())
}

// silent is a source that is not a Changer.
type silent struct{ in *numbers }

func (s silent) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	return s.in.Read(ctx, after, limit)
}

func TestPolled(t *testing.T) {
	t.Parallel()
	source, done := &numbers{}, &handled{}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: silent{source}, Handler: done.handle,
		Checkpoint: &processor.Memory{}, PollInterval: time.Millisecond})
	eventually(t, func() bool { return p.Status().Leading }, "it runs")
	source.grow(10)
	eventually(t, func() bool { return p.Status().Position == "10" }, "it looks again")
}
