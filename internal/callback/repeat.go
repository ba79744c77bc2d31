package callback

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// repeatPause is the pause before Repeat calls a function again.
var repeatPause = backoff.Policy{First: time.Second / 4, Last: 10 * time.Second}

// Repeat runs f like [Run] until it returns nil or ctx ends. It logs each failure, as [LogFailure] does, adds to
// msg that f is called again, and pauses before the next call. The pause begins anew after a call that has lasted
// longer than the longest pause. An error that f returns after the end of ctx is not a failure, but a panic is.
func Repeat(ctx context.Context, log hclog.Logger, msg string, f func() error, args ...any) {
	pause := backoff.Backoff{Policy: repeatPause}
	for ctx.Err() == nil {
		began := time.Now()
		err := Run(f)
		crashed := panicStack(err) != "" || errors.Is(err, ErrExited)
		if err == nil || ctx.Err() != nil && !crashed {
			return
		}
		if time.Since(began) > repeatPause.Last {
			pause.Reset()
		}
		if ctx.Err() != nil {
			LogFailure(log, msg, err, args...)
			return
		}
		LogFailure(log, msg+", calling it again", err, args...)
		wait.For(ctx, pause.Next())
	}
}

// LogFailure logs msg with args, the error, and the stack if the error reports a panic.
func LogFailure(log hclog.Logger, msg string, err error, args ...any) {
	args = append(args, "error", err)
	if stack := panicStack(err); stack != "" {
		args = append(args, "stack", stack)
	}
	log.Error(msg, args...)
}
