package automation

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/internal/leadcaller"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// ErrRunning is returned by Run if the automation is running already.
var ErrRunning = errors.New("the automation runs already; make another one with New")

// Automation executes the items of one source. All methods are safe for concurrent use.
type Automation[I any] struct {
	cfg     Config[I]
	log     hclog.Logger
	running sync.Mutex
	report  statusReport
}

// New returns an automation, or an error if the configuration is invalid. Call [Automation.Run] to run it.
func New[I any](cfg Config[I]) (*Automation[I], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	leaderOnly := cfg.LeaderLock != nil
	cfg = cfg.withDefaults()
	a := &Automation[I]{cfg: cfg, log: cfg.Logger.With("automation", cfg.Name)}
	a.report.initStatus(cfg.Name, cfg.Concurrency, leaderOnly)
	return a, nil
}

// Run executes items, while this process leads if there is a LeaderLock. It returns nil when ctx has ended, all
// executors have returned, and the lead is released. It retries forever when the source or the lock fails. It returns
// ErrRunning if the automation is running already, and an error that matches processor.ErrNoLock when the node has
// stopped.
func (a *Automation[I]) Run(ctx context.Context) error {
	if !a.running.TryLock() {
		return fmt.Errorf("automation %q: %w", a.cfg.Name, ErrRunning)
	}
	defer a.running.Unlock()
	defer logqueue.Flush(context.Background(), a.cfg.Logger)
	waiting := leadcaller.With(ctx, leadcaller.Caller{Name: a.cfg.Name, Report: a.report.recordFailure})
	for failures := 0; ctx.Err() == nil; {
		led := false
		err := a.cfg.LeaderLock.Lead(waiting, func(ctx context.Context, token int64) error {
			led = true
			return a.runTerm(ctx, token)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, processor.ErrNoLock):
			return fmt.Errorf("automation %q: %w", a.cfg.Name, err)
		case led || err == nil:
			failures = 0
		default:
			a.report.recordFailure(err)
			if failures++; failures == 1 {
				a.log.Warn("could not get the leader lock, retrying", "error", logtext.OneLine(err))
			}
		}
		wait.For(ctx, a.cfg.Backoff.Delay(max(failures, 1)))
	}
	return nil
}

// runTerm executes items until ctx ends, and waits for the executors.
func (a *Automation[I]) runTerm(ctx context.Context, token int64) error {
	a.log.Info("automation started", "token", token)
	a.report.recordTermStart(token)
	t := &term[I]{a: a, turn: make(chan struct{}, 1)}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancelCause(withToken(ctx, token))
	defer cancel(nil)
	for range a.cfg.Concurrency {
		all.Go(func() { t.runWorker(ctx, cancel) })
	}
	if c, ok := a.cfg.Source.(Counter); ok {
		all.Go(func() { a.countItems(ctx, c) })
	}
	all.Wait()
	a.report.recordTermEnd()
	a.log.Info("automation ended", "token", token, "reason", context.Cause(ctx))
	return context.Cause(ctx)
}
