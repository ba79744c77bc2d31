package processor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

// A paused processor finishes the current event, stores its progress, and later continues from there.
func TestPause(t *testing.T) {
	t.Parallel()
	source, done, checkpoint := &numbers{last: 5}, &handled{}, &counted{}
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
	brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Pause(brief), context.DeadlineExceeded, "an event is being handled")
	require.True(t, p.Status().Paused)
	close(goOn)
	require.NoError(t, p.Pause(t.Context()))
	require.Equal(t, upTo(2), done.all())
	st := p.Status()
	require.EqualValues(t, "2", st.Position, "what it has handled is stored, and no more")
	require.EqualValues(t, 2, st.Handled)
	require.True(t, st.Leading, "it keeps its lead")

	source.grow(1)
	before := checkpoint.claims.Load()
	eventually(t, func() bool { return checkpoint.claims.Load() > before+20 }, "it goes on looking at its claim")
	require.Equal(t, upTo(2), done.all(), "nothing is handled")
	require.NoError(t, p.Pause(t.Context()), "again is fine")
	p.Resume()
	p.Resume()
	eventually(t, func() bool { return p.Status().Position == "6" }, "it goes on")
	require.False(t, p.Status().Paused)
	end()
	require.Equal(t, upTo(6), done.all())
}

// counted is a checkpoint that counts its claims.
type counted struct {
	processor.Memory
	claims atomic.Int64
}

func (c *counted) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	c.claims.Add(1)
	return c.Memory.Claim(ctx, name, token)
}

// A pause does not wait until a checkpoint that is away is asked again.
func TestPauseBetweenAttempts(t *testing.T) {
	t.Parallel()
	checkpoint := &away{failed: make(chan struct{}, 1000)}
	p, end := run(t, processor.Config[int]{Name: "it", Source: &numbers{last: 1}, Checkpoint: checkpoint,
		Handler: (&handled{}).handle, Backoff: processor.Backoff{Min: time.Minute, Max: time.Minute}})
	<-checkpoint.failed
	brief, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, p.Pause(brief))
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

// A pause lasts through failures, before the first term, and until the end. If another process claims the
// checkpoint, the term ends nevertheless.
func TestPauseHolds(t *testing.T) {
	t.Parallel()
	checkpoint, fails := &processor.Memory{}, make(chan struct{}, 1000)
	var resumed atomic.Bool
	p, err := processor.New(processor.Config[int]{Name: "it", Source: &numbers{last: 1}, Checkpoint: checkpoint,
		MaxAttempts: -1, CheckInterval: time.Millisecond, Backoff: processor.Backoff{Min: time.Millisecond,
			Max: time.Millisecond}, Handler: func(context.Context, processor.Event[int]) error {
			if !resumed.Load() {
				t.Error("it handled an event")
			}
			fails <- struct{}{}
			return errOops
		}})
	require.NoError(t, err)
	require.NoError(t, p.Pause(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	eventually(t, func() bool { return p.Status().Leading }, "it leads")
	_, err = checkpoint.Claim(t.Context(), "it", p.Status().Token+100)
	require.NoError(t, err)
	eventually(t, func() bool { return p.Status().Failures > 0 }, "it notices that another has claimed")
	resumed.Store(true)
	p.Resume()
	<-fails
	<-fails
	require.NoError(t, p.Pause(t.Context()))
	for len(fails) > 0 {
		<-fails
	}
	resumed.Store(false)
	require.Positive(t, p.Status().Retries)
	cancel()
	require.NoError(t, <-ended)
	require.Empty(t, fails)
}

func TestPauseInAGroup(t *testing.T) {
	t.Parallel()
	p, err := processor.New(processor.Config[int]{Name: "it", Source: &numbers{}, Handler: (&handled{}).handle,
		Checkpoint: &processor.Memory{}})
	require.NoError(t, err)
	g := processor.Group{other{}, p}
	require.NoError(t, g.Pause(t.Context(), "it"))
	require.True(t, p.Status().Paused)
	require.NoError(t, g.Resume("it"))
	require.False(t, p.Status().Paused)
	for _, name := range []string{"nobody", "other"} {
		require.ErrorIs(t, g.Pause(t.Context(), name), processor.ErrUnknown)
		require.ErrorIs(t, g.Resume(name), processor.ErrUnknown)
	}
}

// other is a runner that cannot be paused.
type other struct{}

func (other) Run(context.Context) error { return errors.New("it does not run") }
func (other) Status() processor.Status  { return processor.Status{Name: "other"} }
