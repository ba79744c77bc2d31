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

// faulty is a source that fails as it is told.
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
	return int64(f.last) - int64(len(after)), nil
}

// What the source has wrong holds all up, is told, and mends itself.
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
		p, end := run(t, processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: &processor.Memory{}})
		eventually(t, func() bool { return p.Status().Failures > 3 && strings.Contains(p.Status().LastError, says) }, "it is tried on")
		require.Empty(t, done.all())
		require.EqualValues(t, -1, p.Status().Lag)
		source.fail.Store(nil)
		eventually(t, func() bool { return p.Status().Position == "3" && p.Status().Lag == 0 }, "it goes on")
		end()
		require.Equal(t, upTo(3), done.all())
		require.EqualValues(t, -1, p.Status().Lag, "who does not process does not know")
	}
}

// lagging is a source that can be read, and fails when it is asked for the lag as it is told.
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

// A lag that cannot be had any more is not the last one that could.
func TestLagThatFails(t *testing.T) {
	t.Parallel()
	source, inside, goOn := &lagging{numbers: numbers{last: 1}}, make(chan struct{}), make(chan struct{})
	p, _ := run(t, processor.Config[int]{Name: "it", Source: source, Checkpoint: &processor.Memory{}, LagInterval: time.Millisecond,
		Handler: func(context.Context, processor.Event[int]) error {
			close(inside)
			<-goOn // what follows would be drained
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

// A source that tells when there is more is read at once.
func TestWoken(t *testing.T) {
	t.Parallel()
	source, done := &numbers{}, &handled{}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: &processor.Memory{}, PollInterval: time.Hour})
	for range 100 {
		source.grow(1)
	}
	eventually(t, func() bool { return p.Status().Position == "100" }, "nothing is missed")
	require.Equal(t, upTo(100), done.all())
}

// silent is a source that never tells.
type silent struct{ in *numbers }

func (s silent) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	return s.in.Read(ctx, after, limit)
}

func TestPolled(t *testing.T) {
	t.Parallel()
	source, done := &numbers{}, &handled{}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: silent{source}, Handler: done.handle, Checkpoint: &processor.Memory{}, PollInterval: time.Millisecond})
	eventually(t, func() bool { return p.Status().Leading }, "it runs")
	source.grow(10)
	eventually(t, func() bool { return p.Status().Position == "10" }, "it looks again")
}
