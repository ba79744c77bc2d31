package processorload_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/processorload"
)

func TestMain(m *testing.M) {
	if processorload.RunWorker() {
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// effects keeps the effects in memory.
type effects struct {
	mu     sync.Mutex
	events []int
}

func (e *effects) apply(_ context.Context, event int, killed *atomic.Bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if killed.Load() {
		return context.Canceled
	}
	e.events = append(e.events, event)
	return nil
}

func (e *effects) all() ([]int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.events), nil
}

func world(m interface {
	processor.Manager
	processor.Checkpoint
}) processorload.World {
	var e effects
	return processorload.World{Name: "it", Manager: m, Open: func() processor.Checkpoint { return m }, Apply: e.apply,
		Effects: e.all, Seed: 7}
}

// With checkpoints in etcd, no event is lost, and only the events of a batch whose leader was killed are repeated.
func TestEtcd(t *testing.T) {
	t.Parallel()
	checkpoints, err := processor.NewEtcd(processor.EtcdConfig{Client: etcdtest.Dial(t, etcdtest.Start(t).Endpoint())})
	require.NoError(t, err)
	require.NoError(t, processorload.Run(t, world(checkpoints)))
}

// forgetful is a checkpoint that loses an event with some claims.
type forgetful struct {
	*processor.Memory
	claims *atomic.Int64
}

func (f forgetful) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	m, err := f.Memory.Claim(ctx, name, token)
	if n, wrong := strconv.Atoi(string(m.Position)); wrong == nil && f.claims.Add(1)%7 == 0 {
		m.Position = processor.Position(strconv.Itoa(n + 1))
	}
	return m, err
}

// unaware is a checkpoint whose leaders acknowledge each pause at once, and do not see it.
type unaware struct{ *processor.Memory }

func (u unaware) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	m, err := u.Memory.Claim(ctx, name, token)
	m.Paused = false
	return m, err
}

func (u unaware) Advance(ctx context.Context, name string, at processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	m, err := u.Memory.Advance(ctx, name, at, work)
	m.Paused = false
	return m, err
}

func (u unaware) Report(ctx context.Context, name string, r processor.Report) (processor.Mark, error) {
	m, err := u.Memory.Report(ctx, name, r)
	m.Paused = false
	return m, err
}

func (u unaware) Look(ctx context.Context, name string) (processor.Standing, error) {
	s, err := u.Memory.Look(ctx, name)
	if s.Report != nil {
		s.Report.Token, s.Report.Claim, s.Report.Paused, s.Report.Request = s.Token, s.Claim, true, s.Pause.Number
	}
	return s, err
}

// The checks find faults that are planted. Without them, the same world passes.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	require.NoError(t, processorload.Run(t, world(&processor.Memory{})))
	err := processorload.Run(t, world(forgetful{&processor.Memory{}, &atomic.Int64{}}))
	require.Error(t, err)
	require.Regexp(t, "cannot follow|was lost", err.Error(), "a checkpoint that was forgotten at the end loses events")
	err = processorload.Run(t, world(unaware{&processor.Memory{}}))
	require.ErrorContains(t, err, "during an acknowledged pause")
}
