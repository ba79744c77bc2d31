package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// term is one unbroken period in which this process handles events.
type term[E any] struct {
	p            *Processor[E]
	cfg          *Config[E]
	log          hclog.Logger
	mark         Mark
	failureState failureState
	outage       int         // failures in a row that no event caused
	fenced       bool        // another process has claimed the checkpoint, which ended the term
	lagRequests  wait.Signal // requests a measurement of the lag; nil if the source has none
	reports      wait.Signal // requests a report
	seen         atomic.Pointer[look]
	looks        wait.Signal  // after seen has changed
	marks        atomic.Int64 // how often mark was set
	claim        atomic.Int64 // of the mark
	pauseSeen    atomic.Bool  // the last mark or report says that the processor is paused
}

func newTerm[E any](p *Processor[E]) *term[E] {
	return &term[E]{p: p, cfg: &p.cfg, log: p.cfg.Logger.With("processor", p.cfg.Name), reports: wait.NewSignal(),
		looks: wait.NewSignal()}
}

// setMark sets the mark, which the checkpoint has just returned.
func (t *term[E]) setMark(m Mark) {
	t.mark = m
	t.marks.Add(1)
	t.claim.Store(m.Claim)
	t.pauseSeen.Store(m.Paused)
}

// run handles events until ctx ends or another process claims the checkpoint. It returns the reason.
func (t *term[E]) run(ctx context.Context, token int64) error {
	if err := t.claimCheckpoint(ctx, token); err != nil {
		if t.fenced {
			t.log.Warn("processor could not start", "error", logtext.OneLine(err))
		}
		return err
	}
	token = t.mark.Token
	t.log.Info("processor started", "token", token, "position", t.mark.Position)
	t.p.report.recordTermStart(t.mark)
	lag, reports := t.measureLag(ctx), t.publishReports(ctx)
	err := t.processBatches(ctx, token)
	lag()
	reports()
	t.p.report.recordTermEnd()
	t.log.Info("processor ended", "token", token, "position", t.mark.Position, "reason", err)
	return err
}

// processBatches handles batch after batch.
func (t *term[E]) processBatches(ctx context.Context, token int64) error {
	for ctx.Err() == nil {
		if err := t.awaitResume(ctx, token); err != nil {
			return err
		}
		if t.mark.Retry != "" && t.mark.Replay == "" { // a replay may come to the event by itself
			if err := t.retryParked(ctx, token); err != nil {
				return err
			}
			continue
		}
		changed := t.sourceChanged()
		events, err := t.readEvents(ctx)
		if err != nil {
			if !t.pauseAfterOutage(ctx, "could not read the source, retrying", err) {
				break
			}
			continue
		}
		if len(events) == 0 {
			t.recordRecovery()
			t.requestLag()
			if t.mark.Replay = ""; t.mark.Retry != "" { // all events are passed
				continue
			}
			if err := t.awaitEvents(ctx, changed, token); err != nil {
				return err
			}
			continue
		}
		do := t.failureState.nextStep(positionsOf(events), t.cfg.MaxAttempts)
		if do.failures > 0 && !t.pauseAfterFailures(ctx, do.failures) {
			break
		}
		if t.pauseSeen.Load() && !t.mark.Paused {
			if err := t.claimCheckpoint(ctx, token); err != nil { // learn of the request
				return err
			}
			continue
		}
		err = t.advanceBatch(ctx, events[:do.count], do.park)
		if err == nil {
			continue
		}
		if t.fenced {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		// Whatever the outcome was, the stored checkpoint counts.
		before := events[:do.count]
		if err := t.claimCheckpoint(ctx, token); err != nil {
			return err
		}
		t.recordDone(before, do.park)
	}
	return context.Cause(ctx)
}

// claimCheckpoint claims the checkpoint, which determines where to continue. It retries until it succeeds, ctx ends, or
// the token is fenced.
func (t *term[E]) claimCheckpoint(ctx context.Context, token int64) error {
	for {
		var at Mark
		err := callback.Run(func() (err error) {
			at, err = t.cfg.Checkpoint.Claim(ctx, t.cfg.Name, token)
			return err
		})
		if err == nil {
			t.setMark(at)
			return nil
		}
		if errors.Is(err, ErrFenced) {
			return t.recordOvertaken(err)
		}
		if !t.pauseAfterOutage(ctx, "could not claim the checkpoint, retrying", err) {
			return context.Cause(ctx)
		}
	}
}

// recordOvertaken records that another process has claimed the checkpoint.
func (t *term[E]) recordOvertaken(err error) error {
	t.fenced = true
	t.p.report.recordFailure(err)
	return err
}

// maxReplayed limits the events of a batch during a replay: etcd accepts 128 operations in a transaction.
const maxReplayed = 100

func (t *term[E]) readEvents(ctx context.Context) ([]Event[E], error) {
	limit := t.cfg.BatchSize
	if t.failureState.limit > 0 {
		limit = min(limit, t.failureState.limit)
	}
	if t.mark.Replay != "" {
		limit = min(limit, maxReplayed)
	}
	var events []Event[E]
	err := callback.Run(func() (err error) {
		events, err = t.cfg.Source.Read(ctx, t.mark.Position, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, checkPositions(t.mark.Position, positionsOf(events))
}

// pauseAfterOutage records a failure that no event caused, and pauses. It reports whether ctx is still valid. A failure
// of an event in the meantime may have had the same cause.
func (t *term[E]) pauseAfterOutage(ctx context.Context, what string, err error) bool {
	t.failureState = t.failureState.withOutage()
	return t.pauseAfterError(ctx, what, err)
}

func (t *term[E]) pauseAfterError(ctx context.Context, what string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	t.outage++
	if t.outage == 1 {
		t.log.Warn(what, "position", t.mark.Position, "error", logtext.OneLine(err))
	}
	t.p.report.recordFailure(err)
	return t.pauseAfterFailures(ctx, t.outage)
}

// pauseAfterFailures is like that of the processor, and ends early if a report shows that the processor is paused.
func (t *term[E]) pauseAfterFailures(ctx context.Context, failures int) bool {
	timer := time.NewTimer(t.p.delayAfterFailures(failures))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		case <-t.looks:
			if t.pauseSeen.Load() && !t.mark.Paused {
				return true
			}
		}
	}
}

// recordRecovery records that source and checkpoint answer.
func (t *term[E]) recordRecovery() {
	if t.outage > 0 {
		t.log.Info("source and checkpoint answer again", "position", t.mark.Position, "failures", t.outage)
	}
	t.outage = 0
}

// sourceChanged returns the channel that wakes awaitEvents. Call it before the source is read, so that no change
// is missed.
func (t *term[E]) sourceChanged() <-chan struct{} {
	if c, ok := t.cfg.Source.(Changer); ok {
		return c.Changed()
	}
	return nil
}

// awaitEvents waits until the source should be read again, or until a report shows that the checkpoint has changed or
// that there is a request.
func (t *term[E]) awaitEvents(ctx context.Context, changed <-chan struct{}, token int64) error {
	poll := time.NewTimer(t.cfg.PollInterval)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			return nil
		case <-changed:
			return nil
		case <-ctx.Done():
			return nil
		case <-t.looks:
		}
		moved, err := t.followReport(ctx, token)
		if err != nil || moved || t.mark.Paused || t.mark.Retry != "" {
			return err
		}
	}
}

// requestLag requests the lag when no events can be read. Events may be left that the source cannot show yet.
func (t *term[E]) requestLag() {
	if !t.p.report.lagOutdated() {
		return
	}
	t.lagRequests.Send()
}

// measureLag asks the source for the lag at intervals until the term is over. The returned function ends that and
// waits for it.
func (t *term[E]) measureLag(ctx context.Context) (end func()) {
	l, ok := t.cfg.Source.(Lagger)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	t.lagRequests = wait.NewSignal()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			at := t.p.report.position()
			var n int64
			err := callback.Run(func() (err error) { n, err = l.Lag(ctx, at); return err })
			switch {
			case err == nil:
				t.p.report.setLag(at, n)
			case ctx.Err() == nil:
				t.p.report.setLag(at, -1)
				t.p.report.recordFailure(fmt.Errorf("ask the source for the lag: %w", err))
			}
			select {
			case <-time.After(t.cfg.LagInterval):
			case <-t.lagRequests:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
