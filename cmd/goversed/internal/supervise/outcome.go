//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// ended returns the error of a wait that did not succeed.
func (r *runner) ended(err error) error {
	switch {
	case r.asked != 0:
		return &cli.CodeError{Code: exitSignal + int(r.asked)}
	case errors.Is(err, errBusy):
		return r.busy(fmt.Errorf("%s is held by another: leave --nonblock out to wait for it", r.cfg.what()))
	case errors.Is(err, errLate) && !r.cfg.Try && r.claim != nil && r.claim.others():
		return r.busy(fmt.Errorf("%s was not available within %v: give a longer --timeout", r.cfg.what(), r.cfg.Timeout))
	case errors.Is(err, errLate): // it is not known whether another process holds it
		return failed(fmt.Errorf("%s was not available within %v: %w", r.cfg.what(), r.cfg.Timeout, r.silence()))
	}
	return failed(err)
}

// busy wraps the error if another process holds the lock.
func (r *runner) busy(err error) error { return &cli.CodeError{Code: r.cfg.BusyCode, Err: err} }

// reasonFor returns the reason why the term or lock was lost. If it is still held, it returns the reason why
// the command had to end before. Stood is the longest time that this process stood still.
func reasonFor(cause error, stood, ttl time.Duration, guardStood bool) error {
	if over, ok := errors.AsType[*election.TermOverError](cause); ok {
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
	errUnconfirmed = errors.New("etcd has not confirmed the session in time")
	errPaused      = errors.New("goversed or its machine stood still, so that the guard was not notified in time that " +
		"all is well")
	errGuardPaused = errors.New("the guard of the command stood still")
)
