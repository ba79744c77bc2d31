package processor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// advance handles the events and stores the progress. If park is set, it parks the only event instead.
func (t *term[E]) advance(ctx context.Context, events []Event[E], park bool) error {
	var failed Position // the event that failed; "" if none did
	var why error       // the error of the handler or of OnPark
	at, err := t.store(ctx, func(ctx context.Context) (Progress, error) {
		ctx = withToken(ctx, t.at.Token)
		if park {
			var progress Progress
			progress, why = t.park(ctx, events[0])
			return progress, why
		}
		done := Progress{Position: t.at.Position}
		// The handler may leave its goroutine, so it runs in one of its own. What was handled before is stored
		// all the same.
		err := callback.Run(func() error {
			for _, e := range events {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if shut, _ := t.p.gate.isShut(); shut && done.Position != t.at.Position {
					return nil // store the events handled so far; the rest follows after the pause
				}
				failed, why = e.Position, callback.ErrExited // holds until the handler returns
				if why = t.handle(ctx, e); why != nil {
					return why
				}
				failed, done.Position = "", e.Position
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
		t.at = at
		t.count(events, park)
		t.recovered()
	case says(ErrFenced):
		return t.overtaken(err)
	case ctx.Err() != nil:
		t.at = at
		t.count(events, park)
	case park && why != nil && !errors.Is(err, ErrUnavailable):
		t.wait(ctx, "OnPark failed, retrying", err)
	case park:
		t.failing(ctx, "could not park an event, retrying", err)
	case says(ErrRefused):
		t.retry(t.trouble.refused(positions(events), err), "a batch was refused, trying with fewer events")
	case failed != "":
		t.retry(t.trouble.failed(failed, why, judge(err)), "an event failed, trying it again")
	default:
		t.failing(ctx, "could not store what was handled, retrying", err)
	}
	return err
}

// handle calls the handler. A panic becomes an error.
func (t *term[E]) handle(ctx context.Context, e Event[E]) (err error) {
	defer catch(&err)
	return t.cfg.Handler(ctx, e)
}

// store lets the checkpoint store the result of handle. It runs in a goroutine of its own, which the handler
// may leave.
func (t *term[E]) store(ctx context.Context, handle func(context.Context) (Progress, error)) (at Mark, err error) {
	before := t.at
	err = callback.Run(func() (err error) {
		at, err = t.cfg.Checkpoint.Advance(ctx, t.cfg.Name, before, handle)
		return err
	})
	return at, err
}

func catch(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// PanicError is the error of a handler that panicked.
type PanicError = callback.PanicError

func judge(err error) verdict {
	switch {
	case errors.Is(err, ErrPoison):
		return hopeless
	case errors.Is(err, ErrUnavailable):
		return notItsFault
	}
	return itsFault
}

// retry records the failure of events.
func (t *term[E]) retry(now failureState, what string) {
	if now.failures == 1 && !now.poison { // a poison event is logged when it is parked
		t.log.Warn(what, "token", t.at.Token, "after", t.at.Position, "position", now.at, "error", logtext.OneLine(now.err))
	}
	t.trouble = now
	t.p.report.retries(now.err, now.attempts)
}

// park gives an event up.
func (t *term[E]) park(ctx context.Context, e Event[E]) (Progress, error) {
	if t.cfg.OnPark != nil {
		if err := t.onPark(ctx, e); err != nil {
			return Progress{Position: t.at.Position}, fmt.Errorf("OnPark, for the event at %q: %w", e.Position, err)
		}
	}
	return Progress{Position: e.Position, Parked: []Parked{{Position: e.Position, Error: keepable(t.trouble.err),
		Attempts: t.trouble.attempts, Token: t.at.Token, Time: time.Now()}}}, nil
}

func (t *term[E]) onPark(ctx context.Context, e Event[E]) (err error) {
	defer catch(&err)
	return t.cfg.OnPark(ctx, e, t.trouble.err)
}

// count records how many of the events, which were passed to the handler or parked, are done according to the
// checkpoint.
func (t *term[E]) count(events []Event[E], park bool) {
	n := slices.IndexFunc(events, func(e Event[E]) bool { return e.Position == t.at.Position }) + 1
	if n == 0 {
		t.p.report.at(t.at)
		return
	}
	if park {
		t.log.Error("event parked: it will not be handled", "token", t.at.Token, "position", t.at.Position,
			"attempts", t.trouble.attempts, "error", logtext.OneLine(t.trouble.err))
	} else if t.trouble.at != "" && t.trouble.at == events[0].Position {
		t.log.Info("the event that failed is handled", "token", t.at.Token, "position", t.trouble.at,
			"failures", t.trouble.failures)
	}
	t.trouble = t.trouble.passed(positions(events[:n]), t.cfg.BatchSize)
	t.p.report.passed(t.at, n, park, time.Now())
}

// keepable returns the part of an error's text that a database can store.
func keepable(err error) string {
	text := err.Error()
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), maxError)], ""), "\x00", "")
}

func positions[E any](events []Event[E]) []Position {
	at := make([]Position, len(events))
	for i, e := range events {
		at[i] = e.Position
	}
	return at
}
