package automation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

const patience = time.Minute

var errOops = errors.New("oops")

// quick has short pauses.
func quick[I any](cfg automation.Config[I]) automation.Config[I] {
	cfg.PollInterval = 5 * time.Millisecond
	cfg.Backoff.Min, cfg.Backoff.Max = time.Millisecond, 10*time.Millisecond
	cfg.CountInterval = 10 * time.Millisecond
	return cfg
}

// run starts an automation. end stops it and waits for it.
func run[I any](t *testing.T, cfg automation.Config[I]) (a *automation.Automation[I], end func()) {
	t.Helper()
	a, err := automation.New(quick(cfg))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, a.Run(ctx)) })
	end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(end)
	return a, end
}

func eventually(t *testing.T, is func() bool, what string) {
	t.Helper()
	require.Eventually(t, is, patience, 2*time.Millisecond, what)
}

// jobs is a list that several processes share. It records what is executed.
type jobs struct {
	mu    sync.Mutex
	items map[string]int // what is to be done
	done  map[string]int // how often each was executed
	now   map[string]int // how many executors each has now
	most  int            // the most executors that any item had
}

// newJobs returns a list of n items, from 0000 on.
func newJobs(n int) *jobs {
	l := &jobs{items: map[string]int{}, done: map[string]int{}, now: map[string]int{}}
	for i := range n {
		l.items[fmt.Sprintf("%04d", i)] = i
	}
	return l
}

func (l *jobs) list(_ context.Context, after string, limit int) (page []automation.Item[int], err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, value := range l.items {
		if key > after {
			page = append(page, automation.Item[int]{Key: key, Value: value})
		}
	}
	slices.SortFunc(page, func(a, b automation.Item[int]) int { return a.Value - b.Value })
	return page[:min(len(page), limit)], nil
}

func (l *jobs) due(_ context.Context, item automation.Item[int]) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, due := l.items[item.Key]
	return due, nil
}

// begin records that an item is being executed, and end that it is no more; done takes it off the list.
func (l *jobs) begin(key string) (end func(done bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[key]++
	l.most = max(l.most, l.now[key])
	return func(done bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.now[key]--
		if done {
			l.done[key]++
			delete(l.items, key)
		}
	}
}

func (l *jobs) execute(_ context.Context, item automation.Item[int]) error {
	l.begin(item.Key)(true)
	return nil
}

func (l *jobs) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.items)
}

// requireEachOnce requires that each of n items was executed once, by one executor at a time.
func (l *jobs) requireEachOnce(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.done, n)
	for key, times := range l.done {
		require.Equal(t, 1, times, key)
	}
	require.Equal(t, 1, l.most, "no item had two executors at once")
}
