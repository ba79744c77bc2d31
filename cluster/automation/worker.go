package automation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// term is one unbroken period in which this process executes items.
type term[I any] struct {
	a *Automation[I]
	// turn holds a value while a worker looks for an item, and while it waits because there is none. So an idle
	// process asks the source once per PollInterval.
	turn chan struct{}

	mu     sync.Mutex
	outage int // failures of the source in a row
}

// runWorker executes one item after the other until ctx ends, which end does if the source can never be used again.
func (t *term[I]) runWorker(ctx context.Context, end func(cause error)) {
	for {
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			<-t.turn
			return
		}
		changed := t.sourceChanged()
		key, result, err := t.executeNext(ctx)
		if errors.Is(err, processor.ErrNoLock) {
			end(err)
		}
		switch {
		case key != nil && err == nil:
			t.recordRecovery()
			t.a.recordResult(*key, result)
		case key != nil:
			t.pauseAfterOutage(ctx, fmt.Errorf("item %q: %w", *key, err))
		case err != nil:
			t.pauseAfterOutage(ctx, err)
			<-t.turn
		default:
			t.recordRecovery()
			t.awaitItems(ctx, changed)
			<-t.turn
		}
	}
}

// executeNext executes the next item that is due. If there was one, it returns its key and the turn is free; otherwise
// the key is nil and the worker still has the turn.
func (t *term[I]) executeNext(ctx context.Context) (key *string, result Result, err error) {
	err = callback.Run(func() error {
		_, err := t.a.cfg.Source.Next(ctx, t.a.cfg.Name, func(ctx context.Context, c Claim[I]) Result {
			key = &c.Key
			<-t.turn
			t.a.report.recordBegin()
			defer t.a.report.recordEnd()
			result = t.a.execute(ctx, c)
			return result
		})
		return err
	})
	return key, result, err
}

// sourceChanged returns the channel that wakes awaitItems. Call it before the source is asked, so that no change is
// missed.
func (t *term[I]) sourceChanged() <-chan struct{} {
	if c, ok := t.a.cfg.Source.(processor.Changer); ok {
		return c.Changed()
	}
	return nil
}

// awaitItems waits until the source should be asked again.
func (t *term[I]) awaitItems(ctx context.Context, changed <-chan struct{}) {
	poll := time.NewTimer(t.a.cfg.PollInterval)
	defer poll.Stop()
	select {
	case <-poll.C:
	case <-changed:
	case <-ctx.Done():
	}
}

// pauseAfterOutage records a failure of the source, and pauses.
func (t *term[I]) pauseAfterOutage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	t.outage++
	n := t.outage
	t.mu.Unlock()
	if n == 1 {
		t.a.log.Warn("the source of items failed, retrying", "error", logtext.OneLine(err))
	}
	t.a.report.recordFailure(err)
	wait.For(ctx, t.a.cfg.Backoff.Delay(n))
}

// recordRecovery records that the source answers.
func (t *term[I]) recordRecovery() {
	t.mu.Lock()
	n := t.outage
	t.outage = 0
	t.mu.Unlock()
	if n > 0 {
		t.a.log.Info("the source of items answers again", "failures", n)
	}
}

// countItems asks the source for its counts at intervals until ctx ends.
func (a *Automation[I]) countItems(ctx context.Context, c Counter) {
	for {
		var counts Counts
		err := callback.Run(func() (err error) { counts, err = c.Count(ctx, a.cfg.Name); return err })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			counts = unknownCounts
			a.report.recordFailure(fmt.Errorf("count the items: %w", err))
		}
		a.report.setCounts(counts)
		wait.For(ctx, a.cfg.CountInterval)
	}
}
