package processor_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// numbers is a source of the numbers from 1 to last.
type numbers struct {
	processor.Signal
	mu   sync.Mutex
	last int
}

func (n *numbers) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, _ := strconv.Atoi(string(after)) // "" is 0
	var events []processor.Event[int]
	for i++; i <= n.last && len(events) < limit; i++ {
		events = append(events, processor.Event[int]{Position: processor.Position(strconv.Itoa(i)), Value: i})
	}
	return events, nil
}

// behind returns the number of events after a position.
func (n *numbers) behind(after processor.Position) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, _ := strconv.Atoi(string(after))
	return int64(n.last - i)
}

// grow adds events.
func (n *numbers) grow(by int) {
	n.mu.Lock()
	n.last += by
	n.mu.Unlock()
	n.Notify()
}

// handled records the calls of a handler.
type handled struct {
	mu     sync.Mutex
	events []int
}

func (h *handled) handle(_ context.Context, e processor.Event[int]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e.Value)
	return nil
}

func (h *handled) all() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

func upTo(n int) (want []int) {
	for i := range n {
		want = append(want, i+1)
	}
	return want
}

// run starts a processor. end stops it and waits for it.
func run(t *testing.T, cfg processor.Config[int]) (p *processor.Processor[int], end func()) {
	t.Helper()
	if cfg.Backoff == (processor.Backoff{}) {
		cfg.Backoff = processor.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond}
	}
	p, err := processor.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, p.Run(ctx)) })
	end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(end)
	return p, end
}

func eventually(t *testing.T, cond func() bool, what string) {
	t.Helper()
	require.Eventually(t, cond, patience, time.Millisecond, what)
}

// The second processor in the election's queue continues after the first one: nothing is missed, and after an
// orderly stop nothing is handled twice.
func TestStandbyGoesOn(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	a, b := connect(t, server.Endpoint()), connect(t, server.Endpoint())
	ea, _ := stand(t, server.Endpoint(), "a:1")
	eb, _ := stand(t, server.Endpoint(), "b:1")
	source, done := &numbers{last: 25}, &handled{}
	cfg := processor.Config[int]{Name: "views", Source: source, Handler: done.handle, BatchSize: 10}
	cfg.Checkpoint, cfg.LeaderLock = a.etcd, processor.Election(ea, "views")
	first, endFirst := run(t, cfg)
	eventually(t, func() bool { return first.Status().Position == "25" }, "the first has handled all")

	cfg.Checkpoint, cfg.LeaderLock = b.etcd, processor.Election(eb, "views")
	second, endSecond := run(t, cfg)
	source.grow(10)
	eventually(t, func() bool { return first.Status().Position == "35" }, "the first goes on")
	require.False(t, second.Status().Leading)
	endFirst()
	require.False(t, first.Status().Leading)
	eventually(t, func() bool { return second.Status().Leading }, "the second leads")
	require.Greater(t, second.Status().Token, first.Status().Token)
	source.grow(10)
	eventually(t, func() bool { return second.Status().Position == "45" }, "the second has handled all")
	endSecond()
	require.Equal(t, upTo(45), done.all())
}
