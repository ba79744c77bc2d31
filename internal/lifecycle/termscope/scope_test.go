package termscope

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/lifecycle"
)

const workTimeout = 5 * time.Second

var (
	errResigned = errors.New("it resigned")
	errTaken    = errors.New("its key was taken")
	errSession  = errors.New("its session is lost")
)

// owner is an election in one term.
type owner struct {
	*Scope
	mu         sync.Mutex
	idle       int
	overdue    int
	endSession context.CancelCauseFunc
}

func newOwner(t *testing.T) *owner {
	o := &owner{}
	session, end := context.WithCancelCause(t.Context())
	o.endSession = end
	o.Scope = New(Owner{Lock: &o.mu, WorkTimeout: workTimeout, OnIdle: func() { o.idle++ },
		OnOverdue: func(running int) { o.overdue = running },
		OverError: func(why error) error { return fmt.Errorf("%w: %w", lifecycle.ErrTermOver, why) }},
		EndOf(session), EndOf(session))
	return o
}

// locked calls f with the lock held.
func (o *owner) locked(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *owner) end(why error) { o.locked(func() { o.End(why) }) }

func (o *owner) enter() (entered bool) {
	o.locked(func() { entered = o.Enter() })
	return entered
}

func (o *owner) busy() (busy bool) {
	o.locked(func() { busy = o.Busy() })
	return busy
}

// start starts a function that waits for the end of its context and then for goOn, and returns the cause.
func (o *owner) start(t *testing.T, run func(context.Context, func(context.Context) error) error) (ended chan error,
	goOn chan struct{}) {
	t.Helper()
	ended, goOn = make(chan error, 1), make(chan struct{})
	require.True(t, o.enter())
	go func() {
		ended <- run(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			<-goOn
			return context.Cause(ctx)
		})
	}()
	synctest.Wait()
	return ended, goOn
}

// Context ends with the term. The tail lasts until the last function has returned, and nothing begins meanwhile.
func TestTailLastsWhileFunctionsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		lead, goOn := o.start(t, o.RunUntilEnd)
		inside, done := make(chan struct{}), make(chan error, 1)
		require.True(t, o.enter())
		go func() {
			done <- o.RunIntoTail(t.Context(), func(ctx context.Context) error { <-inside; return ctx.Err() })
		}()
		synctest.Wait()
		require.False(t, o.Ended())
		require.True(t, o.busy())
		o.end(errResigned)
		require.True(t, o.Ended())
		require.Equal(t, errResigned, context.Cause(o.Context()))
		require.NoError(t, o.TailEndCause())
		require.False(t, o.enter(), "the term is over")
		close(goOn)
		require.ErrorIs(t, <-lead, errResigned)
		synctest.Wait()
		require.True(t, o.busy(), "the other one")
		require.Zero(t, o.idle)
		close(inside)
		require.NoError(t, <-done)
		synctest.Wait()
		require.False(t, o.busy())
		require.Equal(t, errResigned, o.TailEndCause())
		require.Equal(t, 1, o.idle)
		o.end(errTaken)
		require.Equal(t, 1, o.idle, "once")
		<-time.After(2 * workTimeout) // of the bubble
		require.Zero(t, o.overdue)
	})
}

// A term without functions is idle at its end.
func TestIdleAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		require.True(t, o.enter())
		require.NoError(t, o.RunIntoTail(t.Context(), func(context.Context) error { return nil }))
		o.locked(o.Abandon)
		require.Zero(t, o.idle, "the term goes on")
		o.end(errResigned)
		require.Equal(t, 1, o.idle)
		require.Equal(t, errResigned, o.TailEndCause())
	})
}

// A function that does not return is waited for until WorkTimeout has passed.
func TestFunctionsAreNotWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		began := time.Now()
		done, goOn := o.start(t, o.RunIntoTail)
		o.end(errResigned)
		tail, stop := o.tail.bind(t.Context())
		defer stop()
		<-tail.Done()
		require.Equal(t, workTimeout, time.Since(began))
		synctest.Wait()
		require.False(t, o.busy())
		require.Equal(t, 1, o.idle)
		require.Equal(t, 1, o.overdue, "the number of functions")
		close(goOn)
		require.ErrorIs(t, <-done, lifecycle.ErrTermOver)
		synctest.Wait()
		require.Equal(t, 1, o.idle, "once")
	})
}

func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		done, goOn := o.start(t, o.RunIntoTail)
		close(goOn)
		o.end(errResigned)
		o.locked(o.Abandon)
		require.False(t, o.busy())
		require.ErrorIs(t, <-done, errResigned)
		<-time.After(2 * workTimeout) // of the bubble
		require.Equal(t, 1, o.idle)
		require.Zero(t, o.overdue)
	})
}

// CutOff ends the contexts at once, but the functions are still waited for.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		done, goOn := o.start(t, o.RunIntoTail)
		o.end(errResigned)
		o.CutOff(errTaken)
		require.Equal(t, errTaken, o.TailEndCause())
		require.True(t, o.busy())
		close(goOn)
		require.ErrorIs(t, <-done, errTaken, "the reason for which it was cut off")
		require.ErrorIs(t, o.OverError(errTaken), errResigned, "the term ended for another one")
	})
}

// Errors that report the end of the term match ErrTermOver and name its reason, however the function says so.
// Other errors, and those of the caller's own context, stay the same.
func TestErrorsOfFunctions(t *testing.T) {
	broken := errors.New("broken")
	named := fmt.Errorf("%w: resigned", lifecycle.ErrTermOver)
	wrapped := fmt.Errorf("at work: %w", errSession)
	lose, resign := func(o *owner) { o.endSession(errSession) }, func(o *owner) { o.end(named) }
	for name, c := range map[string]struct {
		end  func(o *owner)
		says func(ctx context.Context) error
		want error // nil: an ErrTermOver with the session's loss
	}{
		"nothing":            {lose, func(context.Context) error { return nil }, nil},
		"the context's":      {lose, context.Context.Err, errSession},
		"the cause":          {lose, context.Cause, errSession},
		"the cause, wrapped": {lose, func(context.Context) error { return wrapped }, errSession},
		"a part of the cause": {func(o *owner) { o.endSession(wrapped) },
			func(context.Context) error { return errSession }, errSession},
		"the end as the owner names it": {resign, context.Context.Err, named},
		"its own":                       {resign, func(context.Context) error { return broken }, broken},
		"its own time-out": {func(o *owner) { o.endSession(fmt.Errorf("unreachable: %w", context.DeadlineExceeded)) },
			func(context.Context) error { return context.DeadlineExceeded }, context.DeadlineExceeded},
		"a refused write": {lose, func(context.Context) error { return named }, named},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, run := range []func(*Scope, context.Context, func(context.Context) error) error{
				(*Scope).RunUntilEnd, (*Scope).RunIntoTail} {
				o := newOwner(t)
				require.True(t, o.enter())
				err := run(o.Scope, t.Context(), func(ctx context.Context) error {
					c.end(o)
					if name != "its own" {
						o.CutOff(o.EndCause())
						<-ctx.Done()
					}
					return c.says(ctx)
				})
				require.ErrorIs(t, err, c.want, name)
				require.Equal(t, c.want != nil && c.want != broken && c.want != context.DeadlineExceeded,
					errors.Is(err, lifecycle.ErrTermOver), name)
				o.end(errResigned)
			}
		})
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	o := newOwner(t)
	require.True(t, o.enter())
	err := o.RunUntilEnd(ctx, func(ctx context.Context) error {
		o.endSession(errSession)
		<-ctx.Done()
		cancel(broken)
		return ctx.Err()
	})
	require.Equal(t, context.Canceled, err, "the caller's own context has ended")
}
