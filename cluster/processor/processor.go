package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/internal/leadcaller"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// ErrRunning is returned by Run if the processor is running already.
var ErrRunning = errors.New("the processor runs already; make another one with New")

// Processor handles the events of one source. All methods are safe for concurrent use.
type Processor[E any] struct {
	cfg     Config[E]
	running sync.Mutex
	report  statusReport
}

// New returns a processor, or an error if the configuration is invalid. Call [Processor.Run] to run it.
func New[E any](cfg Config[E]) (*Processor[E], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Processor[E]{cfg: cfg.withDefaults()}
	p.report.initStatus(cfg.Name)
	return p, nil
}

// Run handles events whenever this process leads. It returns nil when ctx has ended, the handler has returned,
// and the lead is released. It retries forever when etcd, the source or the checkpoint fails. It returns
// ErrRunning if the processor is running already, and ErrNoLock when the node or the elector has stopped.
func (p *Processor[E]) Run(ctx context.Context) error {
	if !p.running.TryLock() {
		return fmt.Errorf("processor %q: %w", p.cfg.Name, ErrRunning)
	}
	defer p.running.Unlock()
	defer logqueue.Flush(context.Background(), p.cfg.Logger)
	waiting := leadcaller.With(ctx, leadcaller.Caller{Name: p.cfg.Name, Report: p.report.recordFailure})
	for failures := 0; ctx.Err() == nil; {
		var t *term[E]
		err := p.cfg.LeaderLock.Lead(waiting, func(ctx context.Context, token int64) error {
			t = newTerm(p)
			return t.run(ctx, token)
		})
		if t != nil {
			t.publishEnd(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNoLock):
			return fmt.Errorf("processor %q: %w", p.cfg.Name, err)
		case t == nil && err != nil:
			p.report.recordFailure(err)
			if failures == 0 {
				p.cfg.Logger.Warn("could not get the leader lock, retrying", "processor", p.cfg.Name, "error", logtext.OneLine(err))
			}
		}
		failures++
		if t != nil && !t.fenced {
			failures = 1 // count the pauses as after any other term
		}
		p.pauseAfterFailures(ctx, failures)
	}
	return nil
}

// pauseAfterFailures waits for the pause that follows the given number of failures in a row. It reports whether ctx is
// still valid.
func (p *Processor[E]) pauseAfterFailures(ctx context.Context, failures int) bool {
	return wait.For(ctx, p.delayAfterFailures(failures))
}

func (p *Processor[E]) delayAfterFailures(failures int) time.Duration {
	return p.cfg.Backoff.Delay(failures)
}
