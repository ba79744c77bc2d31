package processor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

var errOops = errors.New("oops")

// attempts counts how often each event was tried, and lets some fail.
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

// parkings is what OnPark was called with.
type parkings struct {
	mu     sync.Mutex
	events []int
	errs   []error
	fail   func(n int) error
}

func (p *parkings) park(_ context.Context, e processor.Event[int], err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events, p.errs = append(p.events, e.Value), append(p.errs, err)
	if p.fail != nil {
		return p.fail(len(p.events))
	}
	return nil
}

func TestPoisonIsParked(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, _ int) error {
		switch e {
		case 4, 5:
			return errOops
		case 9:
			panic("at the disco")
		case 11:
			return errors.Join(errOops, processor.ErrPoison)
		}
		return nil
	}}
	parked, checkpoint := &parkings{}, &processor.Memory{}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 12}, Handler: tries.handle, Checkpoint: checkpoint,
		BatchSize: 5, MaxAttempts: 3, OnPark: parked.park})
	eventually(t, func() bool { return p.Status().Position == "12" }, "it goes on past them")
	end()
	require.Equal(t, []int{1, 2, 3, 6, 7, 8, 10, 12}, tries.all(), "in order, and once")
	require.Equal(t, []int{4, 5, 9, 11}, parked.events)
	require.Equal(t, errOops, parked.errs[0], "as the handler returned it")
	var panicked *processor.PanicError
	require.ErrorAs(t, parked.errs[2], &panicked)
	require.Equal(t, "at the disco", panicked.Value)
	require.Contains(t, string(panicked.Stack), "events_test.go")
	require.Equal(t, map[int]int{4: 3, 5: 3, 9: 3, 11: 1}, map[int]int{4: tries.of(4), 5: tries.of(5), 9: tries.of(9), 11: tries.of(11)})

	records, err := checkpoint.Parked(t.Context(), "it")
	require.NoError(t, err)
	require.Len(t, records, 4)
	r := records[0]
	require.WithinDuration(t, time.Now(), r.Time, patience)
	r.Time = time.Time{}
	require.Equal(t, processor.Parked{Position: "4", Error: "oops", Attempts: 3, Token: p.Status().Token}, r)
	require.Equal(t, "panic: at the disco", records[2].Error)
	s := p.Status()
	require.EqualValues(t, 4, s.Parked)
	require.EqualValues(t, 8, s.Handled)
	require.EqualValues(t, 10, s.Retries)
	require.Zero(t, s.Attempts)
	require.Contains(t, s.LastError, "oops")
}

// A sink that is away for long costs no event.
func TestWhatIsNotTheEventsFaultDoesNotCount(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, attempt int) error {
		if e == 2 && attempt < 20 {
			return errors.Join(errOops, processor.ErrUnavailable)
		}
		return nil
	}}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle, Checkpoint: &processor.Memory{},
		MaxAttempts: 2, Backoff: processor.Backoff{Min: time.Microsecond, Max: time.Millisecond}})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	end()
	require.Equal(t, upTo(3), tries.all())
	require.Zero(t, p.Status().Parked)
	require.Equal(t, 20, tries.of(2))
}

// With MaxAttempts negative all waits for the event.
func TestNeverParked(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	tries := &attempts{fail: func(e, _ int) error {
		if e == 2 && !mended.Load() {
			return errors.Join(errOops, processor.ErrUnavailable)
		}
		return nil
	}}
	p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle, Checkpoint: &processor.Memory{},
		MaxAttempts: -1, Backoff: processor.Backoff{Min: time.Microsecond, Max: time.Millisecond}})
	eventually(t, func() bool { return tries.of(2) > 30 }, "it is tried on")
	require.EqualValues(t, "1", p.Status().Position)
	require.Zero(t, tries.of(3))
	mended.Store(true)
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	require.Equal(t, upTo(3), tries.all())
}

// An event that could not be parked is not passed by.
func TestParkingThatFails(t *testing.T) {
	t.Parallel()
	tries := &attempts{fail: func(e, _ int) error {
		if e == 2 {
			return errOops
		}
		return nil
	}}
	parked := &parkings{fail: func(n int) error {
		switch n {
		case 1:
			return errOops
		case 2:
			panic(errOops)
		}
		return nil
	}}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 3}, Handler: tries.handle, Checkpoint: &processor.Memory{},
		MaxAttempts: 1, OnPark: parked.park})
	eventually(t, func() bool { return p.Status().Position == "3" }, "it goes on")
	end()
	require.Equal(t, []int{2, 2, 2}, parked.events)
	require.Equal(t, []int{1, 3}, tries.all())
	require.Equal(t, 1, tries.of(2), "it is not tried again meanwhile")
	require.EqualValues(t, 1, p.Status().Parked)
	require.EqualValues(t, 2, p.Status().Failures)
}

// The handler and OnPark are told the token of the term, also one that the checkpoint found.
func TestTokenFrom(t *testing.T) {
	t.Parallel()
	require.Zero(t, processor.TokenFrom(t.Context()))
	for want, lead := range map[int64]processor.LeaderLock{
		1: nil,
		7: processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error { return fn(ctx, 7) }),
	} {
		tokens := make(chan int64, 2)
		p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 1}, Checkpoint: &processor.Memory{}, LeaderLock: lead, MaxAttempts: 1,
			Handler: func(ctx context.Context, _ processor.Event[int]) error {
				tokens <- processor.TokenFrom(ctx)
				return errOops
			},
			OnPark: func(ctx context.Context, _ processor.Event[int], _ error) error {
				tokens <- processor.TokenFrom(ctx)
				return nil
			}})
		require.Equal(t, want, <-tokens)
		require.Equal(t, want, <-tokens)
		eventually(t, func() bool { return p.Status().Parked == 1 }, "it is parked")
		end()
	}
}

// A handler that uses a checkpoint of its own, and is refused there, has failed
// as others do; the term goes on.
func TestHandlerThatIsFencedItself(t *testing.T) {
	t.Parallel()
	for _, wrong := range []error{processor.ErrFenced, processor.ErrRefused} {
		tries := &attempts{fail: func(e, _ int) error {
			if e == 3 {
				return wrong
			}
			return nil
		}}
		parked := &parkings{fail: func(n int) error {
			if n == 1 {
				return wrong
			}
			return nil
		}}
		var terms atomic.Int64
		p, _ := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 5}, Handler: tries.handle, Checkpoint: &processor.Memory{}, MaxAttempts: 3,
			OnPark: parked.park, LeaderLock: processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error { return fn(ctx, terms.Add(1)) })})
		eventually(t, func() bool { return p.Status().Position == "5" }, "it goes on")
		require.Equal(t, 3, tries.of(3), wrong)
		require.EqualValues(t, 1, terms.Load(), wrong)
		require.EqualValues(t, 1, p.Status().Parked)
	}
}

// awayOnce is a checkpoint that fails once, when an event is to be parked.
type awayOnce struct {
	processor.Checkpoint
	failed atomic.Bool
}

func (a *awayOnce) Advance(ctx context.Context, name string, at processor.Mark, work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	return a.Checkpoint.Advance(ctx, name, at, func(ctx context.Context) (processor.Progress, error) {
		progress, err := work(ctx)
		if len(progress.Parked) > 0 && a.failed.CompareAndSwap(false, true) {
			return processor.Progress{Position: at.Position}, errOops
		}
		return progress, err
	})
}

// What failed while the checkpoint failed too is not given up without one more attempt.
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

// Rewinding a processor that runs has it handle all again.
func TestRewound(t *testing.T) {
	t.Parallel()
	source, done, checkpoint := &numbers{last: 5}, &handled{}, &processor.Memory{}
	p, end := run(t, processor.Config[int]{Name: "it", Source: source, Handler: done.handle, Checkpoint: checkpoint})
	eventually(t, func() bool { return p.Status().Position == "5" }, "all is handled")
	require.NoError(t, checkpoint.Rewind(t.Context(), "it", ""))
	source.grow(1)
	eventually(t, func() bool { return len(done.all()) >= 6+6 }, "all is handled again")
	end()
	require.Equal(t, slices.Concat(upTo(6), upTo(6)), done.all())
	require.EqualValues(t, "6", p.Status().Position)
}

// So it does where nothing new comes.
func TestRewoundWhereNothingComes(t *testing.T) {
	t.Parallel()
	done, checkpoint := &handled{}, &processor.Memory{}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 5}, Handler: done.handle, Checkpoint: checkpoint,
		PollInterval: time.Hour, CheckInterval: time.Millisecond})
	eventually(t, func() bool { return p.Status().Position == "5" }, "all is handled")
	require.NoError(t, checkpoint.Rewind(t.Context(), "it", "2"))
	eventually(t, func() bool { return len(done.all()) >= 5+3 }, "some is handled again")
	token := p.Status().Token
	_, err := checkpoint.Claim(t.Context(), "it", token+100)
	require.NoError(t, err)
	eventually(t, func() bool { return p.Status().Failures > 0 }, "it notices that another has claimed")
	end()
	require.Contains(t, p.Status().LastError, processor.ErrFenced.Error())
	require.Equal(t, slices.Concat(upTo(5), []int{3, 4, 5}), done.all()[:8])
}
