package processor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/logtest"
)

// attempts counts the attempts of each event and makes some events fail.
type attempts struct {
	handled
	count map[int]int
	fail  func(e, attempt int) error
}

func (a *attempts) handle(ctx context.Context, e processor.Event[int]) error {
	a.mu.Lock()
	if a.count == nil {
		a.count = map[int]int{}
	}
	a.count[e.Value]++
	n := a.count[e.Value]
	a.mu.Unlock()
	if err := a.fail(e.Value, n); err != nil {
		return err
	}
	return a.handled.handle(ctx, e)
}

func (a *attempts) of(e int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count[e]
}

// A sink that is unavailable for long costs no event. A panic with an error counts as that error: a program
// that asks for a transaction where there is none loses no event.
func TestWhatIsNotTheEventsFaultDoesNotCount(t *testing.T) {
	t.Parallel()
	for what, trouble := range map[string]func() error{
		"returned": func() error { return errors.Join(errOops, processor.ErrUnavailable) },
		"panic":    func() error { panic(fmt.Errorf("%w: no transaction", processor.ErrUnavailable)) },
	} {
		t.Run(what, func(t *testing.T) {
			tries := &attempts{fail: func(e, attempt int) error {
				if e == 2 && attempt < 20 {
					return trouble()
				}
				return nil
			}}
			p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle,
				Checkpoint:  &processor.Memory{},
				MaxAttempts: 2, Backoff: processor.Backoff{Min: time.Microsecond, Max: time.Millisecond}})
			eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
			end()
			require.Equal(t, upTo(3), tries.all())
			require.Zero(t, p.Status().Parked)
			require.Equal(t, 20, tries.of(2))
		})
	}
}

// An event gets one line of the log, whatever its error says. The log does not announce a retry of an event
// that is parked at once.
func TestOneLineForAnEvent(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, attempt int) error {
		switch {
		case e == 1 && attempt == 1:
			return errors.Join(errOops, errors.New("at:\n\tthere"))
		case e == 2:
			return errors.Join(errOops, processor.ErrPoison)
		}
		return nil
	}}
	var logged logtest.Buffer
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle,
		Checkpoint: &processor.Memory{},
		Backoff:    processor.Backoff{Min: time.Microsecond}, Logger: logged.Logger()})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	end()
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	require.Len(t, lines, 5, logged.String())
	require.Contains(t, lines[0], "processor started")
	require.Contains(t, lines[1],
		`an event failed, trying it again: processor=it token=1 after= position=1 error="oops; at: there"`)
	require.Contains(t, lines[2], "the event that failed is handled")
	require.Contains(t, lines[3], `event parked: it will not be handled: `+
		`processor=it token=1 position=2 attempts=1 error="oops; the event cannot be handled"`)
	require.Contains(t, lines[4], "processor ended")
}

// With a negative MaxAttempts, all later events wait.
func TestNeverParked(t *testing.T) {
	t.Parallel()
	var repaired atomic.Bool
	tries := &attempts{fail: func(e, _ int) error {
		if e == 2 && !repaired.Load() {
			return errors.Join(errOops, processor.ErrUnavailable)
		}
		return nil
	}}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle,
		Checkpoint:  &processor.Memory{},
		MaxAttempts: -1, Backoff: processor.Backoff{Min: time.Microsecond, Max: time.Millisecond}})
	eventually(t, func() bool { return tries.of(2) > 30 }, "it is tried on")
	require.EqualValues(t, "1", p.Status().Position)
	require.Zero(t, tries.of(3))
	repaired.Store(true)
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	require.Equal(t, upTo(3), tries.all())
}

// awayOnce is a checkpoint that fails once, when an event is to be parked.
type awayOnce struct {
	processor.Checkpoint
	failed atomic.Bool
}

func (a *awayOnce) Advance(ctx context.Context, name string, at processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	return a.Checkpoint.Advance(ctx, name, at, func(ctx context.Context) (processor.Progress, error) {
		progress, err := work(ctx)
		if len(progress.Parked) > 0 && a.failed.CompareAndSwap(false, true) {
			return processor.Progress{Position: at.Position}, errOops
		}
		return progress, err
	})
}

// An event that failed while the checkpoint failed too gets one more attempt before it is parked.
func TestOneMoreAttemptAfterAnOutage(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, attempt int) error {
		if e == 2 && attempt < 3 {
			return errOops
		}
		return nil
	}}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle,
		Checkpoint: &awayOnce{Checkpoint: &processor.Memory{}}, MaxAttempts: 2})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	end()
	require.Equal(t, upTo(3), tries.all())
	require.Zero(t, p.Status().Parked)
}
