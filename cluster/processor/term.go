package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// term is one unbroken period in which this process handles events.
type term[E any] struct {
	p       *Processor[E]
	cfg     *Config[E]
	log     hclog.Logger
	at      Mark
	trouble failureState
	claimed time.Time     // when the checkpoint was last claimed
	outage  int           // failures in a row that no event caused
	fenced  bool          // another process has claimed the checkpoint, which ended the term
	ask     chan struct{} // requests a measurement of the lag; nil if the source has none
}

// run handles events until ctx ends or another process claims the checkpoint. It returns the reason.
func (t *term[E]) run(ctx context.Context, token int64) error {
	if err := t.claim(ctx, token); err != nil {
		if t.fenced {
			t.log.Warn("processor could not start", "error", logtext.OneLine(err))
		}
		return err
	}
	token = t.at.Token
	t.log.Info("processor started", "token", token, "position", t.at.Position)
	t.p.report.leads(t.at)
	lag := t.measure(ctx)
	err := t.process(ctx, token)
	lag()
	t.p.report.ended()
	t.log.Info("processor ended", "token", token, "position", t.at.Position, "reason", err)
	return err
}

// process handles batch after batch.
func (t *term[E]) process(ctx context.Context, token int64) error {
	for ctx.Err() == nil {
		if err := t.hold(ctx, token); err != nil {
			return err
		}
		changed := t.changed()
		events, err := t.read(ctx)
		if err != nil {
			if !t.failing(ctx, "could not read the source, retrying", err) {
				break
			}
			continue
		}
		if len(events) == 0 {
			t.recovered()
			t.requestLag()
			if err := t.idle(ctx, changed, token); err != nil {
				return err
			}
			continue
		}
		do := t.trouble.next(positions(events), t.cfg.MaxAttempts)
		if do.wait > 0 && !t.p.delay(ctx, do.wait) {
			break
		}
		if !t.p.gate.enter() {
			continue // paused in the meantime
		}
		err = t.advance(ctx, events[:do.take], do.park)
		t.p.gate.leave()
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
		before := events[:do.take]
		if err := t.claim(ctx, token); err != nil {
			return err
		}
		t.count(before, do.park)
	}
	return context.Cause(ctx)
}

// claim claims the checkpoint, which determines where to continue. It retries until it succeeds, ctx ends, or
// the token is fenced.
func (t *term[E]) claim(ctx context.Context, token int64) error {
	for {
		var at Mark
		err := callback.Run(func() (err error) {
			at, err = t.cfg.Checkpoint.Claim(ctx, t.cfg.Name, token)
			return err
		})
		if err == nil {
			t.at, t.claimed = at, time.Now()
			return nil
		}
		if errors.Is(err, ErrFenced) {
			return t.overtaken(err)
		}
		if !t.failing(ctx, "could not claim the checkpoint, retrying", err) {
			return context.Cause(ctx)
		}
	}
}

// overtaken records that another process has claimed the checkpoint.
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
	var events []Event[E]
	err := callback.Run(func() (err error) {
		events, err = t.cfg.Source.Read(ctx, t.at.Position, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, checkPositions(t.at.Position, func(i int) Position { return events[i].Position }, len(events))
}

// failing records a failure that no event caused, and pauses. It reports whether ctx is still valid. A failure
// of an event in the meantime may have had the same cause.
func (t *term[E]) failing(ctx context.Context, what string, err error) bool {
	t.trouble = t.trouble.spared()
	return t.wait(ctx, what, err)
}

func (t *term[E]) wait(ctx context.Context, what string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	t.outage++
	if t.outage == 1 {
		t.log.Warn(what, "position", t.at.Position, "error", logtext.OneLine(err))
	}
	t.p.report.failed(err)
	return t.p.delay(ctx, t.outage)
}

// recovered records that source and checkpoint answer.
func (t *term[E]) recovered() {
	if t.outage > 0 {
		t.log.Info("source and checkpoint answer again", "position", t.at.Position, "failures", t.outage)
	}
	t.outage = 0
}

// changed returns the channel that wakes idle. It must be called before the source is read, so that no change
// is missed.
func (t *term[E]) changed() <-chan struct{} {
	if c, ok := t.cfg.Source.(Changer); ok {
		return c.Changed()
	}
	return nil
}

// idle waits until the source should be read again. At each CheckInterval it claims the checkpoint, which may
// have been rewound or claimed by another process: with nothing to store, only a claim shows that.
func (t *term[E]) idle(ctx context.Context, changed <-chan struct{}, token int64) error {
	poll, look := time.NewTimer(t.cfg.PollInterval), time.NewTimer(time.Until(t.claimed.Add(t.cfg.CheckInterval)))
	defer poll.Stop()
	defer look.Stop()
	for before := t.at.Position; t.at.Position == before; look.Reset(t.cfg.CheckInterval) {
		select {
		case <-poll.C:
			return nil
		case <-changed:
			return nil
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if err := t.claim(ctx, token); err != nil {
			return err
		}
	}
	t.log.Info("checkpoint moved", "token", token, "position", t.at.Position)
	t.p.report.at(t.at)
	return nil
}

// requestLag requests the lag when no events can be read. Events may be left that the source cannot show yet.
func (t *term[E]) requestLag() {
	if !t.p.report.outdated() {
		return
	}
	select {
	case t.ask <- struct{}{}:
	default:
	}
}

// measure asks the source for the lag at intervals until the term is over. The returned function ends that and
// waits for it.
func (t *term[E]) measure(ctx context.Context) (end func()) {
	l, ok := t.cfg.Source.(Lagger)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	t.ask = make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			at := t.p.report.position()
			var n int64
			err := callback.Run(func() (err error) { n, err = l.Lag(ctx, at); return err })
			switch {
			case err == nil:
				t.p.report.lag(at, n)
			case ctx.Err() == nil:
				t.p.report.lag(at, -1)
				t.p.report.failed(fmt.Errorf("ask the source for the lag: %w", err))
			}
			select {
			case <-time.After(t.cfg.LagInterval):
			case <-t.ask:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
