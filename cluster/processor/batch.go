package processor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// advanceBatch handles the events and stores the progress. If park is set, it parks the only event instead.
func (t *term[E]) advanceBatch(ctx context.Context, events []Event[E], park bool) (err error) {
	var failed Position // the event that failed; "" if none did
	var why error       // the error of the handler or of OnPark
	var at Mark
	at, err = t.storeResult(ctx, func(ctx context.Context) (Progress, error) {
		if park {
			var progress Progress
			progress, why = t.parkEvent(ctx, events[0])
			return progress, why
		}
		done := Progress{Position: t.mark.Position, Replay: t.mark.Replay}
		// The handler may leave its goroutine, so it runs in one of its own. What was handled before is stored
		// all the same.
		err := callback.Run(func() error {
			for _, e := range events {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if t.pauseSeen.Load() && done.Position != t.mark.Position {
					return nil // store the events handled so far; the rest follows after the pause
				}
				failed, why = e.Position, callback.ErrExited // holds until the handler returns
				if why = t.callHandler(ctx, e); why != nil {
					return why
				}
				failed = ""
				done.add(e.Position)
			}
			return nil
		})
		if ctx.Err() != nil {
			failed = ""
		}
		return done, err
	})
	// says reports whether the checkpoint itself returned target. The handler may use another checkpoint and
	// return the same error.
	says := func(target error) bool { return errors.Is(err, target) && !errors.Is(why, target) }
	switch {
	case err == nil:
		t.setMark(at)
		t.recordDone(events, park)
		t.recordRecovery()
	case says(ErrFenced):
		return t.recordOvertaken(err)
	case ctx.Err() != nil:
		t.setMark(at)
		t.recordDone(events, park)
	case park && why != nil && !errors.Is(err, ErrUnavailable):
		t.pauseAfterError(ctx, "OnPark failed, retrying", err)
	case park:
		t.pauseAfterOutage(ctx, "could not park an event, retrying", err)
	case says(ErrRefused):
		t.recordRetry(t.failureState.withRefusal(positionsOf(events), err), "a batch was refused, trying with fewer events")
	case failed != "":
		t.recordRetry(t.failureState.withFailure(failed, why, classifyError(err)), "an event failed, trying it again")
	default:
		t.pauseAfterOutage(ctx, "could not store what was handled, retrying", err)
	}
	return err
}

// add adds a handled event to the progress. During a replay, it may have been parked before.
func (p *Progress) add(at Position) {
	p.Position = at
	if p.Replay == "" {
		return
	}
	p.Handled = append(p.Handled, at)
	if at == p.Replay {
		p.Replay = ""
	}
}

// callHandler calls the handler. A panic becomes an error.
func (t *term[E]) callHandler(ctx context.Context, e Event[E]) (err error) {
	defer recoverPanic(&err)
	return t.cfg.Handler(ctx, e)
}

// storeResult lets the checkpoint store the result of handle. It runs in a goroutine of its own, which the handler
// may leave.
func (t *term[E]) storeResult(ctx context.Context, handle func(context.Context) (Progress, error)) (at Mark,
	err error) {
	before := t.mark
	err = callback.Run(func() (err error) {
		at, err = t.cfg.Checkpoint.Advance(ctx, t.cfg.Name, before, func(ctx context.Context) (Progress, error) {
			return handle(withToken(ctx, before.Token))
		})
		return err
	})
	return at, err
}

func recoverPanic(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// PanicError is the error of a handler that panicked.
type PanicError = callback.PanicError

func classifyError(err error) failureCause {
	switch {
	case errors.Is(err, ErrPoison):
		return causePoison
	case errors.Is(err, ErrUnavailable):
		return causeOther
	}
	return causeEvent
}

// recordRetry records the failure of events.
func (t *term[E]) recordRetry(now failureState, what string) {
	if now.failures == 1 && !now.poison { // a poison event is logged when it is parked
		t.log.Warn(what, "token", t.mark.Token, "after", t.mark.Position, "position", now.at, "error",
			logtext.OneLine(now.err))
	}
	t.failureState = now
	t.p.report.recordRetry(now.err, now.attempts)
}

// parkEvent gives an event up.
func (t *term[E]) parkEvent(ctx context.Context, e Event[E]) (Progress, error) {
	done := Progress{Position: t.mark.Position, Replay: t.mark.Replay}
	if t.cfg.OnPark != nil {
		if err := t.callOnPark(ctx, e); err != nil {
			return done, fmt.Errorf("OnPark, for the event at %q: %w", e.Position, err)
		}
	}
	done.add(e.Position)
	done.Handled = nil
	done.Parked = []Parked{{Position: e.Position, After: t.mark.Position, Error: storableText(t.failureState.err),
		Attempts: t.failureState.attempts, Token: t.mark.Token, Time: time.Now()}}
	return done, nil
}

func (t *term[E]) callOnPark(ctx context.Context, e Event[E]) (err error) {
	defer recoverPanic(&err)
	return t.cfg.OnPark(ctx, e, t.failureState.err)
}

// recordDone records how many of the events, which were passed to the handler or parked, are done according to the
// checkpoint.
func (t *term[E]) recordDone(events []Event[E], park bool) {
	n := slices.IndexFunc(events, func(e Event[E]) bool { return e.Position == t.mark.Position }) + 1
	if n == 0 {
		t.p.report.setPosition(t.mark)
		return
	}
	if park {
		t.log.Error("event parked: it will not be handled", "token", t.mark.Token, "position", t.mark.Position,
			"attempts", t.failureState.attempts, "error", logtext.OneLine(t.failureState.err))
	} else if t.failureState.at != "" && t.failureState.at == events[0].Position {
		t.log.Info("the event that failed is handled", "token", t.mark.Token, "position", t.failureState.at,
			"failures", t.failureState.failures)
	}
	t.failureState = t.failureState.withSuccess(positionsOf(events[:n]), t.cfg.BatchSize)
	t.p.report.recordBatch(t.mark, n, park, time.Now())
}

// storableText returns the part of an error's text that a database can store.
func storableText(err error) string { return logtext.Bound(err.Error(), maxError) }

func positionsOf[E any](events []Event[E]) []Position {
	at := make([]Position, len(events))
	for i, e := range events {
		at[i] = e.Position
	}
	return at
}
