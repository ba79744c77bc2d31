package automation_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/logtest"
)

// source returns a list as one process sees it.
func (l *jobs) source(t *testing.T, locks lock.LockRegistry) automation.Source[int] {
	t.Helper()
	s, err := automation.NewList(automation.ListConfig[int]{List: l.list, Due: l.due, Locks: locks, PageSize: 7})
	require.NoError(t, err)
	return s
}

func TestConfig(t *testing.T) {
	t.Parallel()
	l := newJobs(0)
	good := automation.Config[int]{Name: "it", Source: l.source(t, nil), Execute: l.execute}
	require.NoError(t, good.Validate())
	for name, change := range map[string]func(*automation.Config[int]){
		"Source is nil": func(c *automation.Config[int]) { c.Source = nil },
		"Execute is":    func(c *automation.Config[int]) { c.Execute = nil },
		"Concurrency":   func(c *automation.Config[int]) { c.Concurrency = -1 },
		"up to 10000":   func(c *automation.Config[int]) { c.Concurrency = 10_001 },
		"PollInterval":  func(c *automation.Config[int]) { c.PollInterval = -1 },
		"CountInterval": func(c *automation.Config[int]) { c.CountInterval = -1 },
		"Backoff":       func(c *automation.Config[int]) { c.Backoff.Min = -1 },
	} {
		bad := good
		change(&bad)
		_, err := automation.New(bad)
		require.ErrorIs(t, err, automation.ErrBadConfig)
		require.ErrorContains(t, err, name)
	}
	for _, name := range []string{"", strings.Repeat("x", 201), "a\x00b", "\xff"} {
		bad := good
		bad.Name = name
		require.ErrorIs(t, bad.Validate(), leaderelection.ErrBadName)
	}
	for _, bad := range []automation.ListConfig[int]{{}, {List: l.list}, {List: l.list, Due: l.due, PageSize: -1}} {
		_, err := automation.NewList(bad)
		require.ErrorIs(t, err, automation.ErrBadConfig)
	}
}

// Whichever process is free executes an item. Each is executed once, although both processes list all of them.
func TestProcessesShareAList(t *testing.T) {
	t.Parallel()
	l, locks := newJobs(300), &lock.Memory{}
	var both sync.WaitGroup
	var by [2]*automation.Automation[int]
	for i := range by {
		execute := func(ctx context.Context, item automation.Item[int]) error {
			assert.Positive(t, automation.TokenFrom(ctx))
			end := l.begin(item.Key)
			runtime.Gosched()
			end(true)
			return nil
		}
		both.Go(func() {
			by[i], _ = run(t, automation.Config[int]{Name: "it", Source: l.source(t, locks), Execute: execute, Concurrency: 4})
		})
	}
	both.Wait()
	eventually(t, func() bool { return l.left() == 0 && by[0].Status().Done+by[1].Status().Done == 300 }, "all are done")
	l.requireEachOnce(t, 300)
	s := by[0].Status()
	require.True(t, s.Active)
	require.Equal(t, 4, s.Workers)
	require.Empty(t, s.LastError)
	require.Positive(t, s.PerSecond+by[1].Status().PerSecond)
}

// Items that fail are executed again after pauses, and parked after the last attempt. No item waits for another one.
func TestItemsThatFail(t *testing.T) {
	t.Parallel()
	l := newJobs(20)
	var attempts [20]atomic.Int64
	var parked sync.Map
	a, end := run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), MaxAttempts: 3,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			n := attempts[item.Value].Add(1)
			switch item.Value {
			case 2:
				return errOops
			case 3:
				panic(errOops)
			case 4:
				runtime.Goexit()
			case 5:
				return errors.Join(processor.ErrPoison, errOops)
			case 6: // more often than attempts are allowed
				if n < 10 {
					return processor.ErrUnavailable
				}
			case 7:
				if n < 3 {
					return errOops
				}
			}
			return l.execute(ctx, item)
		},
		OnPark: func(ctx context.Context, item automation.Item[int], err error) error {
			if _, again := parked.LoadOrStore(item.Value, err); !again && item.Value == 2 {
				return errors.New("later")
			}
			l.begin(item.Key)(true)
			return nil
		}})
	eventually(t, func() bool { return l.left() == 0 }, "all are done or parked")
	end()
	for i, want := range map[int]int64{2: 3, 3: 3, 4: 3, 5: 1, 6: 10, 7: 3, 8: 1} {
		require.EqualValues(t, want, attempts[i].Load(), "item %d", i)
	}
	for _, i := range []int{2, 3, 5} {
		err, _ := parked.Load(i)
		require.ErrorIs(t, err.(error), errOops, "item %d", i)
	}
	s := a.Status()
	require.EqualValues(t, 4, s.GivenUp)
	require.EqualValues(t, 16, s.Done)
	require.EqualValues(t, 2*3+1+9+2, s.Retries, "one of them because OnPark failed")
	require.False(t, s.Active)
	require.Zero(t, s.Running)
	l.requireEachOnce(t, 20)
}

// A parked item that stays on the list is not executed again, and counts as parked. Its memory is freed with it.
func TestParkedItemStays(t *testing.T) {
	t.Parallel()
	l := newJobs(1)
	var attempts atomic.Int64
	a, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), MaxAttempts: 2,
		Execute: func(context.Context, automation.Item[int]) error { attempts.Add(1); return errOops }})
	eventually(t, func() bool { return a.Status().Parked == 1 }, "it is parked")
	require.EqualValues(t, 2, attempts.Load())
	require.Equal(t, "0000", a.Status().LastItem)
	require.Equal(t, "oops", a.Status().LastError)
	l.begin("0000")(true)
	eventually(t, func() bool { return a.Status().Parked == 0 }, "it is forgotten")
	require.EqualValues(t, 2, attempts.Load())
}

// An item that stays on the list after it was executed is not executed all the time.
func TestItemStaysOnTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, times := newJobs(3), 0
		a, err := automation.New(automation.Config[int]{Name: "it", Source: l.source(t, nil), PollInterval: time.Millisecond,
			Execute: func(ctx context.Context, item automation.Item[int]) error {
				if item.Value == 1 {
					times++
					return nil
				}
				return l.execute(ctx, item)
			}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		require.NoError(t, a.Run(ctx))
		require.Equal(t, 11, times)
		require.EqualValues(t, 13, a.Status().Done)
	})
}

// One slow item occupies one worker. The others go on.
func TestSlowItem(t *testing.T) {
	t.Parallel()
	l, release := newJobs(50), make(chan struct{})
	a, _ := run(t, automation.Config[int]{Name: "it", Source: l.source(t, nil), Concurrency: 2,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			if item.Value == 0 {
				<-release
			}
			return l.execute(ctx, item)
		}})
	eventually(t, func() bool { return l.left() == 1 }, "all but the slow one")
	require.Equal(t, 1, a.Status().Running)
	close(release)
	eventually(t, func() bool { return l.left() == 0 }, "that one, too")
}

// An idle process asks its source once per PollInterval, however many workers it has, and at once when the source
// changes.
func TestIdleProcessAsksOncePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newJobs(0)
		var lists atomic.Int64
		source, err := automation.NewList(automation.ListConfig[int]{Due: l.due,
			List: func(ctx context.Context, after string, limit int) ([]automation.Item[int], error) {
				lists.Add(1)
				return l.list(ctx, after, limit)
			}})
		require.NoError(t, err)
		changing := &changingSource{Source: source}
		a, err := automation.New(automation.Config[int]{Name: "it", Source: changing, Execute: l.execute, Concurrency: 50,
			PollInterval: time.Minute})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+2*time.Second)
		defer cancel()
		time.AfterFunc(5*time.Minute+time.Second, changing.Notify)
		require.NoError(t, a.Run(ctx))
		require.EqualValues(t, 12, lists.Load())
	})
}

type changingSource struct {
	automation.Source[int]
	processor.Signal
}

// With a LeaderLock, only the leader executes items. The next one goes on when it ends.
func TestLeaderAlone(t *testing.T) {
	t.Parallel()
	l, locks := newJobs(40), &lock.Memory{}
	hold := make(chan struct{})
	config := func(limit int) automation.Config[int] {
		return automation.Config[int]{Name: "it", Source: l.source(t, nil), LeaderLock: processor.Lock(locks, "it"),
			Concurrency: 3, Execute: func(ctx context.Context, item automation.Item[int]) error {
				assert.Positive(t, automation.TokenFrom(ctx))
				if item.Value >= limit {
					select {
					case <-hold:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				return l.execute(ctx, item)
			}}
	}
	first, endFirst := run(t, config(20))
	eventually(t, func() bool { return first.Status().Running == 3 && l.left() == 20 }, "it leads")
	second, _ := run(t, config(100))
	require.False(t, second.Status().Active)
	require.Zero(t, second.Status().Done)
	endFirst()
	eventually(t, func() bool { return l.left() == 0 }, "the second one leads")
	require.Greater(t, second.Status().Token, first.Status().Token)
	require.Zero(t, first.Status().Retries, "what the end of the lead cut off has not failed")
	l.requireEachOnce(t, 40)
	require.ErrorIs(t, endless(t, l).Run(t.Context()), processor.ErrNoLock)
}

// endless returns an automation that can never lead.
func endless(t *testing.T, l *jobs) *automation.Automation[int] {
	t.Helper()
	a, err := automation.New(automation.Config[int]{Name: "it", Source: l.source(t, nil), Execute: l.execute,
		LeaderLock: processor.Lock(nil, "it")})
	require.NoError(t, err)
	return a
}

// Automations and processors share one lock.
func TestSharedLeaderLock(t *testing.T) {
	t.Parallel()
	first, second := newJobs(5), newJobs(5)
	shared := processor.Shared(processor.Lock(&lock.Memory{}, "all"))
	a, _ := run(t, automation.Config[int]{Name: "a", Source: first.source(t, nil), Execute: first.execute,
		LeaderLock: shared})
	b, _ := run(t, automation.Config[int]{Name: "b", Source: second.source(t, nil), Execute: second.execute,
		LeaderLock: shared})
	eventually(t, func() bool { return first.left() == 0 && second.left() == 0 }, "both work in the term")
	require.Equal(t, a.Status().Token, b.Status().Token)
	require.True(t, a.Status().Active && b.Status().Active)
}

// A source that fails is asked again and again, and the automation recovers.
func TestSourceThatFails(t *testing.T) {
	t.Parallel()
	l := newJobs(3)
	var fail atomic.Pointer[func() ([]automation.Item[int], error)]
	source, err := automation.NewList(automation.ListConfig[int]{Due: l.due,
		List: func(ctx context.Context, after string, limit int) ([]automation.Item[int], error) {
			if f := fail.Load(); f != nil {
				return (*f)()
			}
			return l.list(ctx, after, limit)
		}})
	require.NoError(t, err)
	for _, f := range []func() ([]automation.Item[int], error){
		func() ([]automation.Item[int], error) { return nil, errOops },
		func() ([]automation.Item[int], error) { panic(errOops) },
		func() ([]automation.Item[int], error) { return []automation.Item[int]{{Key: "b"}, {Key: "a"}}, nil },
		func() ([]automation.Item[int], error) { return []automation.Item[int]{{Key: ""}}, nil },
	} {
		fail.Store(&f)
		a, end := run(t, automation.Config[int]{Name: "it", Source: source, Execute: l.execute, Concurrency: 3})
		eventually(t, func() bool { return a.Status().Failures > 3 }, "it is tried on")
		require.Zero(t, a.Status().Done)
		require.ErrorIs(t, a.Run(t.Context()), automation.ErrRunning)
		end()
	}
	fail.Store(nil)
	_, _ = run(t, automation.Config[int]{Name: "it", Source: source, Execute: l.execute})
	eventually(t, func() bool { return l.left() == 0 }, "it goes on")
}

// effectStore is a store of effects in this process.
type effectStore struct {
	mu   sync.Mutex
	done map[string]bool
}

func (e *effectStore) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	e.mu.Lock()
	done := e.done[name]
	e.mu.Unlock()
	if done {
		return once.Result{}, nil
	}
	_, err := fn(ctx, 77)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		e.mu.Lock()
		e.done[name] = true
		e.mu.Unlock()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return once.Result{}, &once.UnknownError{Name: name}
	}
	return once.Result{Ran: true}, err
}

// With Once, an effect that took place is not repeated, and an unknown outcome parks the item.
func TestOnce(t *testing.T) {
	t.Parallel()
	l, e := newJobs(4), &effectStore{done: map[string]bool{"it/0002": true}}
	var ran [4]atomic.Int64
	var unknown atomic.Int64
	a, _ := run(t, automation.Config[int]{Name: "it", Source: forgetful{l}, Once: e,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			assert.EqualValues(t, 77, automation.TokenFrom(ctx))
			switch n := ran[item.Value].Add(1); {
			case item.Value == 1 && n == 1:
				return errOops
			case item.Value == 3:
				return context.DeadlineExceeded // the outcome of this one is unknown
			}
			return nil
		},
		OnPark: func(_ context.Context, _ automation.Item[int], err error) error {
			if errors.Is(err, once.ErrUnknown) {
				unknown.Add(1)
			}
			return nil
		}})
	eventually(t, func() bool { return l.left() == 0 }, "all are off the list")
	require.EqualValues(t, 3, a.Status().Done)
	for i, want := range []int64{1, 2, 0, 1} {
		require.EqualValues(t, want, ran[i].Load(), "item %d", i)
	}
	require.EqualValues(t, 1, unknown.Load())
}

// forgetful is a source that takes items off its list by their results, and keeps no failures.
type forgetful struct{ *jobs }

func (f forgetful) Next(ctx context.Context, _ string,
	work func(context.Context, automation.Claim[int]) automation.Result) (bool, error) {
	page, _ := f.list(ctx, "", 1)
	if len(page) == 0 {
		return false, nil
	}
	r := work(ctx, automation.Claim[int]{Item: page[0]})
	f.begin(page[0].Key)(r.Outcome == automation.Done || r.Outcome == automation.Parked)
	return true, nil
}

// Each time that the leader lock cannot be acquired is logged once.
func TestLockThatFailsIsLogged(t *testing.T) {
	t.Parallel()
	var said logtest.Buffer
	var attempts atomic.Int64
	lock := processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error {
		if n := attempts.Add(1); n == 4 || n == 8 {
			leading, cancel := context.WithCancel(ctx)
			cancel()
			return fn(leading, n)
		}
		return errOops
	})
	_, end := run(t, automation.Config[int]{Name: "it", Source: newJobs(0).source(t, nil), LeaderLock: lock,
		Execute: func(context.Context, automation.Item[int]) error { return nil }, Logger: said.Logger()})
	eventually(t, func() bool { return attempts.Load() > 10 }, "it is tried on")
	end()
	require.Equal(t, 3, said.Count("could not get the leader lock"), said.String())
}
