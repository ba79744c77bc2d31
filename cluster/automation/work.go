package automation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// PanicError is the error of an executor that panicked.
type PanicError = callback.PanicError

type tokenKey struct{}

// TokenFrom returns the fencing token under which ctx's Execute or OnPark is called: that of the effect's attempt, else
// that of the item's lock, else that of the leader; 0 if there is none. Pass it to the systems that the executor writes
// to; they must refuse tokens smaller than the largest they have seen for the item.
func TokenFrom(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// decideResult returns the result for an item with these counts after an attempt that ended with err. pause returns
// the pause after a number of failures.
func decideResult(attempts, failures int, err error, maxAttempts int, pause func(failures int) time.Duration) Result {
	if err == nil {
		return Result{Outcome: Done}
	}
	r := Result{Outcome: Failed, Attempts: attempts, Failures: failures + 1, Err: err}
	poison := errors.Is(err, processor.ErrPoison) || errors.Is(err, once.ErrUnknown)
	if poison || !errors.Is(err, processor.ErrUnavailable) {
		r.Attempts++
	}
	if poison {
		r.Attempts = max(r.Attempts, maxAttempts)
	}
	if poison || r.Attempts > attempts && exhausted(r.Attempts, maxAttempts) {
		r.Outcome = Parked
		return r
	}
	r.After = pause(r.Failures)
	return r
}

// exhausted reports whether an item with that many attempts gets no further one.
func exhausted(attempts, maxAttempts int) bool { return maxAttempts > 0 && attempts >= maxAttempts }

// execute executes a claimed item, and parks it if it must not be executed again.
func (a *Automation[I]) execute(ctx context.Context, c Claim[I]) Result {
	if c.Token != 0 {
		ctx = withToken(ctx, c.Token)
	}
	r := Result{Outcome: Parked, Attempts: c.Attempts, Failures: c.Failures, Err: c.LastError}
	if !exhausted(c.Attempts, a.cfg.MaxAttempts) { // otherwise OnPark failed before
		err := a.tryExecute(ctx, c)
		if err != nil && ctx.Err() != nil {
			return Result{Outcome: Released, Err: err}
		}
		r = decideResult(c.Attempts, c.Failures, err, a.cfg.MaxAttempts, a.cfg.Backoff.Delay)
	}
	if r.Outcome != Parked {
		return r
	}
	if r.Err == nil {
		r.Err = errExhausted
	}
	err := a.tryOnPark(ctx, c, r.Err)
	switch {
	case err == nil:
		return r
	case ctx.Err() != nil:
		return Result{Outcome: Released, Err: err}
	}
	r.Outcome, r.Failures = Failed, r.Failures+1
	r.After, r.Err = a.cfg.Backoff.Delay(r.Failures), fmt.Errorf("%w; OnPark: %w", r.Err, err)
	return r
}

// errExhausted is the error of an item with too many attempts and an unknown last error.
var errExhausted = errors.New("it has failed as often as it may")

func (a *Automation[I]) tryExecute(ctx context.Context, c Claim[I]) error {
	if err := checkKey(c.Key); err != nil {
		return fmt.Errorf("%w: %w", processor.ErrPoison, err)
	}
	if c.ReadError != nil {
		return fmt.Errorf("read the item: %w", c.ReadError)
	}
	return runTry(ctx, c.Try, func(ctx context.Context) error { return a.callExecute(ctx, c.Item) })
}

func (a *Automation[I]) tryOnPark(ctx context.Context, c Claim[I], why error) error {
	if a.cfg.OnPark == nil {
		return nil
	}
	return runTry(ctx, c.TryPark, func(ctx context.Context) error { return a.cfg.OnPark(ctx, c.Item, why) })
}

// runTry runs fn by try, or directly if that is nil. A panic becomes an error.
func runTry(ctx context.Context, try func(context.Context, func(context.Context) error) error,
	fn func(context.Context) error) error {
	run := func(ctx context.Context) error { return callback.Run(func() error { return fn(ctx) }) }
	if try == nil {
		return run(ctx)
	}
	return try(ctx, run)
}

// callExecute calls Execute, as an effect if so configured.
func (a *Automation[I]) callExecute(ctx context.Context, item Item[I]) error {
	if a.cfg.Once == nil {
		return a.cfg.Execute(ctx, item)
	}
	ran := false
	_, err := a.cfg.Once.Once(ctx, a.cfg.Name+"/"+item.Key, func(ctx context.Context, token int64) ([]byte, error) {
		ran = true
		return nil, a.cfg.Execute(withToken(ctx, token), item)
	})
	if err != nil && !ran && !errors.Is(err, once.ErrUnknown) { // etcd or the node, but not the item
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err)
	}
	return err
}

// recordResult records a result that the source has stored.
func (a *Automation[I]) recordResult(key string, r Result) {
	a.report.recordResult(key, r, time.Now())
	switch {
	case r.Outcome == Parked:
		a.log.Error("item parked: it will not be executed again", "item", key, "attempts", r.Attempts, "error",
			logtext.OneLine(r.Err))
	case r.Outcome == Failed && r.Failures == 1:
		a.log.Warn("an item failed, executing it again", "item", key, "after", r.After, "error", logtext.OneLine(r.Err))
	}
}
