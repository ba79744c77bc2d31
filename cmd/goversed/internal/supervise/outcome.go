//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// waitError returns the error of a wait that did not succeed.
func (r *runner) waitError(err error) error {
	switch {
	case r.waitSignal != 0:
		return &cli.ExitCodeError{Code: exitSignal + int(r.waitSignal)}
	case errors.Is(err, errBusy):
		return r.busyError(fmt.Errorf("%s is held by another: leave --nonblock out to wait for it", r.cfg.describe()))
	case errors.Is(err, errWaitTimeout) && !r.cfg.Try && r.claim != nil && r.claim.blockedByOthers():
		return r.busyError(fmt.Errorf("%s was not available within %v: give a longer --timeout", r.cfg.describe(),
			r.cfg.Timeout))
	case errors.Is(err, errWaitTimeout): // it is not known whether another process holds it
		return failed(fmt.Errorf("%s was not available within %v: %w", r.cfg.describe(), r.cfg.Timeout, r.silenceError()))
	}
	return failed(err)
}

// busyError wraps the error if another process holds the lock.
func (r *runner) busyError(err error) error {
	return &cli.ExitCodeError{Code: r.cfg.BusyCode, Err: err}
}

// lossReason returns the reason why the term or lock was lost. If it is still held, it returns the reason why
// the command had to end before. Stood is the longest time that this process stood still.
func lossReason(cause error, stood, ttl time.Duration, guardStood bool) error {
	if over, ok := errors.AsType[*leaderelection.TermOverError](cause); ok {
		return over.Err // the caller names the election itself
	}
	switch {
	case cause != nil:
		return cause
	case guardStood:
		return errGuardPaused
	case stood >= ttl/8:
		return errPaused
	}
	return errUnconfirmed
}

// Reasons to end a command while its lock is still held.
var (
	errUnconfirmed = errors.New("the session was not confirmed in time")
	errPaused      = errors.New("goversed or its machine stood still, so that the guard was not notified in time that " +
		"all is well")
	errGuardPaused = errors.New("the guard of the command stood still")
)
