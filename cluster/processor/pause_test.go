package processor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/processor"
)

// pauseIt pauses the processor it and waits until that is acknowledged.
func pauseIt(t *testing.T, m processor.Manager) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, processor.Pause(ctx, m, "it", processor.PauseRequest{By: "the test", Reason: "why not"}))
}

func resumeIt(t *testing.T, m processor.Manager) {
	t.Helper()
	require.NoError(t, processor.Resume(t.Context(), m, "it", processor.PauseRequest{By: "the test"}))
}

// A paused processor finishes the current event, stores its progress, and later continues from there. The pause is
// acknowledged after that.
func TestPause(t *testing.T) {
	t.Parallel()
	source, done, checkpoint := &numbers{last: 5}, &handled{}, &processor.Memory{}
	inside, goOn := make(chan struct{}), make(chan struct{})
	p, end := run(t, processor.Config[int]{Name: "it", Source: source, Checkpoint: checkpoint,
		CheckInterval: time.Millisecond, Handler: func(ctx context.Context, e processor.Event[int]) error {
			if e.Position == "2" {
				close(inside)
				<-goOn
			}
			return done.handle(ctx, e)
		}})
	<-inside
	brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := processor.Pause(brief, checkpoint, "it", processor.PauseRequest{})
	require.ErrorIs(t, err, processor.ErrNotAcknowledged, "an event is being handled")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, p.Status().Paused)
	eventually(t, func() bool { return reportOf(t, checkpoint).At.After(time.Now().Add(-time.Minute)) }, "it reports")
	close(goOn)
	pauseIt(t, checkpoint)
	require.Equal(t, upTo(2), done.all(), "what it has handled is stored, and no more")
	s, err := checkpoint.Look(t.Context(), "it")
	require.NoError(t, err)
	require.EqualValues(t, "2", s.Position)
	require.Equal(t, "why not", s.Pause.Reason)
	st := p.Status()
	require.True(t, st.Paused)
	require.EqualValues(t, 2, st.Handled)
	require.True(t, st.Leading, "it keeps its lead")

	source.grow(1)
	before := s.Report.At
	eventually(t, func() bool { return reportOf(t, checkpoint).At.After(before.Add(10 * time.Millisecond)) },
		"it goes on reporting")
	require.Equal(t, upTo(2), done.all(), "nothing is handled")
	pauseIt(t, checkpoint)
	resumeIt(t, checkpoint)
	resumeIt(t, checkpoint)
	eventually(t, func() bool { return p.Status().Position == "6" }, "it goes on")
	require.False(t, p.Status().Paused)
	end()
	require.Equal(t, upTo(6), done.all())
}

func reportOf(t *testing.T, m processor.Manager) processor.Report {
	t.Helper()
	s, err := m.Look(t.Context(), "it")
	require.NoError(t, err)
	if s.Report == nil {
		return processor.Report{}
	}
	return *s.Report
}

// A pause does not wait until a checkpoint that is away is asked again.
func TestPauseBetweenAttempts(t *testing.T) {
	t.Parallel()
	checkpoint := &away{failed: make(chan struct{}, 1000)}
	_, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 1}, Checkpoint: checkpoint,
		CheckInterval: time.Millisecond, Handler: (&handled{}).handle,
		Backoff: processor.Backoff{Min: time.Hour, Max: time.Hour}})
	<-checkpoint.failed
	pauseIt(t, checkpoint)
	end()
}

// away is a checkpoint that stores nothing.
type away struct {
	processor.Memory
	failed chan struct{}
}

func (a *away) Advance(context.Context, string, processor.Mark,
	func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	a.failed <- struct{}{}
	return processor.Mark{}, errOops
}

// A pause lasts through failures, before the first term, from one leader to the next, and until it is ended. If
// another process claims the checkpoint, the term ends nevertheless.
func TestPauseHolds(t *testing.T) {
	t.Parallel()
	checkpoint, fails := &processor.Memory{}, make(chan struct{}, 1000)
	var resumed atomic.Bool
	pauseIt(t, checkpoint) // no leader runs
	cfg := processor.Config[int]{Name: "it", Source: &numbers{last: 1}, Checkpoint: checkpoint,
		MaxAttempts: -1, CheckInterval: time.Millisecond, Backoff: processor.Backoff{Min: time.Millisecond,
			Max: time.Millisecond}, Handler: func(context.Context, processor.Event[int]) error {
			if !resumed.Load() {
				t.Error("it handled an event")
			}
			fails <- struct{}{}
			return errOops
		}}
	p, endFirst := run(t, cfg)
	eventually(t, func() bool { return p.Status().Leading }, "it leads")
	_, err := checkpoint.Claim(t.Context(), "it", p.Status().Token+100)
	require.NoError(t, err)
	eventually(t, func() bool { return p.Status().Failures > 0 }, "it notices that another has claimed")
	endFirst()
	s, err := checkpoint.Look(t.Context(), "it")
	require.NoError(t, err)
	p, end := run(t, cfg)
	eventually(t, func() bool { return p.Status().Paused }, "it leads, and is paused")
	pauseIt(t, checkpoint)
	require.Greater(t, p.Status().Token, s.Token, "the next leader")
	resumed.Store(true)
	resumeIt(t, checkpoint)
	<-fails
	<-fails
	pauseIt(t, checkpoint)
	for len(fails) > 0 {
		<-fails
	}
	resumed.Store(false)
	require.Positive(t, p.Status().Retries)
	end()
	require.Empty(t, fails)
	require.False(t, reportOf(t, checkpoint).Leading, "it reports that it has ended")
	pauseIt(t, checkpoint)
}

// A leader that was killed acknowledges nothing: its last report says that it leads.
func TestPauseWithoutLeader(t *testing.T) {
	t.Parallel()
	checkpoint := &processor.Memory{}
	m, err := checkpoint.Claim(t.Context(), "it", 3)
	require.NoError(t, err)
	_, err = checkpoint.Report(t.Context(), "it", processor.Report{Claim: m.Claim, Status: processor.Status{Leading: true,
		Token: 3}})
	require.NoError(t, err)
	brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, processor.Pause(brief, checkpoint, "it", processor.PauseRequest{}), processor.ErrNotAcknowledged)
	_, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{}, Handler: (&handled{}).handle,
		Checkpoint: checkpoint})
	pauseIt(t, checkpoint)
	end()
	resumed, cancelResumed := context.WithCancel(t.Context())
	defer cancelResumed()
	require.ErrorIs(t, processor.Pause(resumed, resumesAtOnce{checkpoint}, "it", processor.PauseRequest{}),
		processor.ErrResumed)
	require.ErrorIs(t, processor.Pause(resumed, checkpoint, "", processor.PauseRequest{}), leaderelection.ErrBadName)
}

// resumesAtOnce ends each pause.
type resumesAtOnce struct{ *processor.Memory }

func (r resumesAtOnce) RequestPause(ctx context.Context, name string, request processor.PauseRequest) error {
	return errors.Join(r.Memory.RequestPause(ctx, name, request),
		r.Memory.RequestPause(ctx, name, processor.PauseRequest{}))
}
