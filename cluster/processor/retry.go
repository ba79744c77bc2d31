package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// errGone is the error of a retry if the source does not return the event any more.
var errGone = errors.New("the source does not return the event any more; drop it, or rewind to before it")

// retryParked handles the parked event for which a retry is requested, once. The removal of its record is stored with
// the position, which stays. If the event fails, its record gets the error. An error of retryParked ends the term.
func (t *term[E]) retryParked(ctx context.Context, token int64) error {
	at := t.mark.Retry
	err := t.retryOnce(ctx, at)
	switch {
	case err == nil:
		t.recordRecovery()
		return nil
	case t.fenced:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.Is(err, ErrNotParked) && !t.pauseAfterOutage(ctx, "could not retry a parked event, retrying", err):
		return context.Cause(ctx)
	}
	return t.claimCheckpoint(ctx, token)
}

// retryOnce returns an error if the outcome of the retry is not stored.
func (t *term[E]) retryOnce(ctx context.Context, at Position) error {
	var record Parked
	err := callback.Run(func() (err error) {
		record, err = t.cfg.Checkpoint.ParkedEvent(ctx, t.cfg.Name, at)
		return err
	})
	if err != nil {
		return err
	}
	event, failed, err := t.readParked(ctx, record)
	if err != nil {
		return err
	}
	if failed == nil {
		failed, err = t.handleParked(ctx, event)
		if failed == nil {
			return err
		}
	}
	record.Error, record.Token, record.Time = storableText(failed), t.mark.Token, time.Now()
	if !errors.Is(failed, ErrUnavailable) {
		record.Attempts++
	}
	next, err := t.storeResult(ctx, func(context.Context) (Progress, error) {
		return Progress{Position: t.mark.Position, Failed: &record}, nil
	})
	if err != nil {
		return t.checkFenced(err)
	}
	t.setMark(next)
	t.p.report.recordFailedRetry(failed)
	t.log.Warn("a parked event failed again", "token", t.mark.Token, "position", at, "attempts", record.Attempts,
		"error", logtext.OneLine(failed))
	return nil
}

// readParked reads a parked event again. failed is set if the source does not return it.
func (t *term[E]) readParked(ctx context.Context, record Parked) (event Event[E], failed, err error) {
	var events []Event[E]
	err = callback.Run(func() (err error) {
		events, err = t.cfg.Source.Read(ctx, record.After, 1)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return event, nil, context.Cause(ctx)
	case err != nil:
		return event, fmt.Errorf("read the event again: %w", err), nil
	case len(events) == 0 || events[0].Position != record.Position:
		return event, errGone, nil
	}
	return events[0], nil, nil
}

// handleParked handles a parked event and stores that. failed is the failure of the event.
func (t *term[E]) handleParked(ctx context.Context, event Event[E]) (failed, err error) {
	next, err := t.storeResult(ctx, func(ctx context.Context) (Progress, error) {
		failed = callback.Run(func() error { return t.callHandler(ctx, event) })
		if failed != nil {
			return Progress{Position: t.mark.Position}, failed
		}
		return Progress{Position: t.mark.Position, Handled: []Position{event.Position}}, nil
	})
	t.setMark(next)
	switch {
	case err == nil:
		t.p.report.recordBatch(t.mark, 1, false, time.Now())
		t.log.Info("parked event handled", "token", t.mark.Token, "position", event.Position)
		return nil, nil
	case ctx.Err() != nil:
		return nil, err
	case failed == nil && errors.Is(err, ErrRefused):
		return err, err
	case failed == nil:
		return nil, t.checkFenced(err)
	}
	return failed, err
}

// checkFenced records that another process has claimed the checkpoint, if err says so.
func (t *term[E]) checkFenced(err error) error {
	if errors.Is(err, ErrFenced) {
		return t.recordOvertaken(err)
	}
	return err
}
