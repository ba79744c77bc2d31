package processor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/internal/wait"
)

// term is one unbroken stretch in which this process processes.
type term[E any] struct {
	p       *Processor[E]
	cfg     *Config[E]
	log     hclog.Logger
	at      Mark
	trouble trouble
	outage  int  // how often in a row something failed that is no event's fault
	fenced  bool // it ended because another has claimed the checkpoint
}

// run processes until ctx ends or the checkpoint is another's, and returns why.
func (t *term[E]) run(ctx context.Context, token int64) error {
	if err := t.claim(ctx, token); err != nil {
		if t.fenced {
			t.log.Warn("processing does not begin", "error", err)
		}
		return err
	}
	token = t.at.Token
	t.log.Info("processing begins", "token", token, "position", t.at.Position)
	t.p.report.leads(t.at)
	lag := t.measure(ctx)
	err := t.process(ctx, token)
	lag()
	t.p.report.ended()
	t.log.Info("processing ends", "token", token, "position", t.at.Position, "reason", err)
	return err
}

// process handles batch after batch.
func (t *term[E]) process(ctx context.Context, token int64) error {
	for ctx.Err() == nil {
		changed := t.changed()
		events, err := t.read(ctx)
		if err != nil {
			if !t.failing(ctx, "could not read the source, trying on", err) {
				break
			}
			continue
		}
		if len(events) == 0 {
			t.fine()
			t.p.report.drained()
			t.idle(ctx, changed)
			continue
		}
		do := t.trouble.next(positions(events), t.cfg.MaxAttempts)
		if do.wait > 0 && !t.p.pause(ctx, do.wait) {
			break
		}
		err = t.advance(ctx, events[:do.take], do.park)
		if err == nil {
			continue
		}
		if errors.Is(err, ErrFenced) {
			return t.overtaken(err)
		}
		if ctx.Err() != nil {
			break
		}
		// Whatever became of it, what is stored counts.
		before := events[:do.take]
		if err := t.claim(ctx, token); err != nil {
			return err
		}
		t.count(before, do.park)
	}
	return context.Cause(ctx)
}

// claim finds out where to go on, however long that takes.
func (t *term[E]) claim(ctx context.Context, token int64) error {
	for {
		at, err := t.cfg.Checkpoint.Claim(ctx, t.cfg.Name, token)
		if err == nil {
			t.at = at
			return nil
		}
		if errors.Is(err, ErrFenced) {
			return t.overtaken(err)
		}
		if !t.failing(ctx, "could not claim the checkpoint, trying on", err) {
			return context.Cause(ctx)
		}
	}
}

// overtaken takes note that another has claimed the checkpoint.
func (t *term[E]) overtaken(err error) error {
	t.fenced = true
	t.p.report.failed(err)
	return err
}

func (t *term[E]) read(ctx context.Context) ([]Event[E], error) {
	limit := t.cfg.BatchSize
	if t.trouble.limit > 0 {
		limit = min(limit, t.trouble.limit)
	}
	events, err := t.cfg.Source.Read(ctx, t.at.Position, limit)
	if err != nil {
		return nil, err
	}
	return events, checkPositions(t.at.Position, func(i int) Position { return events[i].Position }, len(events))
}

// advance handles the events, or gives the only one up, and stores that.
func (t *term[E]) advance(ctx context.Context, events []Event[E], park bool) error {
	var failed Position // the event that did, if one did
	var why error
	at, err := t.cfg.Checkpoint.Advance(ctx, t.cfg.Name, t.at, func(ctx context.Context) (Progress, error) {
		if park {
			return t.park(ctx, events[0])
		}
		done := Progress{Position: t.at.Position}
		for _, e := range events {
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			if err := t.handle(ctx, e); err != nil {
				if ctx.Err() == nil {
					failed, why = e.Position, err
				}
				return done, err
			}
			done.Position = e.Position
		}
		return done, nil
	})
	switch {
	case err == nil:
		t.at = at
		t.count(events, park)
		t.fine()
	case errors.Is(err, ErrFenced):
	case ctx.Err() != nil:
		t.at = at
		t.count(events, park)
	case failed != "":
		t.retry(t.trouble.failed(failed, why, judge(why)), "an event failed, trying it again")
	case park:
		t.failing(ctx, "could not park an event, trying on", err)
	case errors.Is(err, ErrRefused):
		t.retry(t.trouble.refused(positions(events), err), "a batch was refused, trying with fewer events")
	default:
		t.failing(ctx, "could not store what was handled, trying on", err)
	}
	return err
}

// handle calls the handler; a panic is an error.
func (t *term[E]) handle(ctx context.Context, e Event[E]) (err error) {
	defer catch(&err)
	return t.cfg.Handler(ctx, e)
}

func catch(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// PanicError is what a handler that panicked failed with.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is what it panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func judge(err error) verdict {
	switch {
	case errors.Is(err, ErrPoison):
		return hopeless
	case errors.Is(err, ErrUnavailable):
		return notItsFault
	}
	return itsFault
}

// retry takes note of events that failed.
func (t *term[E]) retry(now trouble, what string) {
	if now.failures == 1 {
		t.log.Warn(what, "token", t.at.Token, "after", t.at.Position, "position", now.at, "error", now.err)
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

// count takes note of the events, first of those that were taken, that are done with by now.
func (t *term[E]) count(events []Event[E], park bool) {
	n := slices.IndexFunc(events, func(e Event[E]) bool { return e.Position == t.at.Position }) + 1
	if n == 0 {
		t.p.report.at(t.at)
		return
	}
	if park {
		t.log.Error("an event was parked: it is not handled", "token", t.at.Token, "position", t.at.Position,
			"attempts", t.trouble.attempts, "error", t.trouble.err)
	} else if t.trouble.at != "" && t.trouble.at == events[0].Position {
		t.log.Info("the event that failed is handled", "token", t.at.Token, "position", t.trouble.at, "failures", t.trouble.failures)
	}
	t.trouble = t.trouble.passed(positions(events[:n]), t.cfg.BatchSize)
	t.p.report.passed(t.at, n, park, time.Now())
}

// failing takes note of a failure that is no event's fault, and waits. It reports whether ctx
// goes on.
func (t *term[E]) failing(ctx context.Context, what string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	t.outage++
	if t.outage == 1 {
		t.log.Warn(what, "position", t.at.Position, "error", err)
	}
	t.p.report.failed(err)
	return t.p.pause(ctx, t.outage)
}

// fine: source and checkpoint answer.
func (t *term[E]) fine() {
	if t.outage > 0 {
		t.log.Info("source and checkpoint answer again", "position", t.at.Position, "failures", t.outage)
	}
	t.outage = 0
}

// changed is what wakes idle; it is asked for before the source is read, so that nothing is
// missed.
func (t *term[E]) changed() <-chan struct{} {
	if c, ok := t.cfg.Source.(Changer); ok {
		return c.Changed()
	}
	return nil
}

func (t *term[E]) idle(ctx context.Context, changed <-chan struct{}) {
	timer := time.NewTimer(t.cfg.PollInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}

// measure asks the source for the lag now and then, until the term is over; what it returns
// waits for that.
func (t *term[E]) measure(ctx context.Context) (end func()) {
	l, ok := t.cfg.Source.(Lagger)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for again := true; again; again = wait.For(ctx, t.cfg.LagInterval) {
			n, err := l.Lag(ctx, t.p.report.position())
			if err == nil {
				t.p.report.lag(n)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// keepable is what a database can take of an error's text.
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
