package processorload_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/processorload"
)

// ledger is a checkpoint that stores the effects of a batch with its position, or neither.
type ledger struct {
	processor.Memory
	effects effects
	commit  sync.Mutex
}

type batchKey struct{}

// Advance implements processor.Checkpoint.
func (l *ledger) Advance(ctx context.Context, name string, at processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	var batch []int
	commits := false
	defer func() {
		if commits {
			l.commit.Unlock()
		}
	}()
	now, err := l.Memory.Advance(ctx, name, at, func(ctx context.Context) (processor.Progress, error) {
		progress, err := work(context.WithValue(ctx, batchKey{}, &batch))
		if err != nil {
			return processor.Progress{Position: at.Position, Replay: at.Replay}, err
		}
		l.commit.Lock() // the effects are in the order of the commits
		commits = true
		return progress, nil
	})
	if err != nil {
		return at, err
	}
	l.effects.mu.Lock()
	defer l.effects.mu.Unlock()
	l.effects.events = append(l.effects.events, batch...)
	return now, nil
}

// all returns the effects of all batches that are stored.
func (l *ledger) all() ([]int, error) {
	l.commit.Lock()
	defer l.commit.Unlock()
	return l.effects.all()
}

func (l *ledger) apply(ctx context.Context, event int, _ *atomic.Bool) error {
	batch := ctx.Value(batchKey{}).(*[]int)
	*batch = append(*batch, event)
	return nil
}

// With effects in the transaction of the checkpoint, each event takes effect once, and once more after each rewind.
func TestTransactions(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	require.NoError(t, processorload.Run(t, processorload.World{Name: "it", Manager: l, Undoes: true, Seed: 7,
		Open: func() processor.Checkpoint { return l }, Apply: l.apply, Effects: l.all}))
}

// The acknowledgement of a former leader does not count: its successor may have begun before the request was stored.
func TestPauseOfTheNextLeader(t *testing.T) {
	t.Parallel()
	var m processor.Memory
	ctx := t.Context()
	first, err := m.Claim(ctx, "it", 5)
	require.NoError(t, err)
	// Its term has ended.
	_, err = m.Report(ctx, "it", processor.Report{Claim: first.Claim, Status: processor.Status{Token: 5}})
	require.NoError(t, err)
	require.NoError(t, m.RequestPause(ctx, "it", processor.PauseRequest{Paused: true}))
	s, err := m.Look(ctx, "it")
	require.NoError(t, err)
	require.True(t, s.PauseAcknowledged(), "no process leads")
	_, err = m.Claim(ctx, "it", 5) // another processor of the same shard has the same token
	require.NoError(t, err)
	s, err = m.Look(ctx, "it")
	require.NoError(t, err)
	require.False(t, s.PauseAcknowledged())
}

// three is a source of the events 1 to 3.
type three struct{}

func (three) Read(_ context.Context, after processor.Position, _ int) (all []processor.Event[int], err error) {
	n, _ := strconv.Atoi(string(after)) // "" is 0
	for n++; n <= 3; n++ {
		all = append(all, processor.Event[int]{Position: processor.Position(strconv.Itoa(n)), Value: n})
	}
	return all, nil
}

// A parked event that is to be retried, and to which the processor comes again after a rewind, is handled once.
func TestReplayOrRetry(t *testing.T) {
	t.Parallel()
	var m processor.Memory
	var done effects
	var healed, killed atomic.Bool
	run := func(until func(s processor.Standing) bool) {
		p, err := processor.New(processor.Config[int]{Name: "it", Source: three{}, Checkpoint: &m,
			CheckInterval: time.Millisecond, Handler: func(ctx context.Context, e processor.Event[int]) error {
				if e.Value == 2 && !healed.Load() {
					return processor.ErrPoison
				}
				return done.apply(ctx, e.Value, &killed)
			}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		defer running.Wait()
		defer cancel()
		require.Eventually(t, func() bool {
			s, err := m.Look(t.Context(), "it")
			return err == nil && s.Position == "3" && until(s)
		}, time.Minute, time.Millisecond)
	}
	run(func(s processor.Standing) bool { return s.Parked == 1 })
	healed.Store(true)
	require.NoError(t, m.RequestRetry(t.Context(), "it", "2"))
	require.NoError(t, m.Rewind(t.Context(), "it", ""))
	run(func(s processor.Standing) bool { return s.Parked == 0 })
	all, err := done.all()
	require.NoError(t, err)
	require.Equal(t, []int{1, 3, 1, 2, 3}, all)
}
