//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// ended is the end of a wait that came to nothing.
func (r *runner) ended(err error) error {
	switch {
	case r.asked != 0:
		return &cli.CodeError{Code: exitSignal + int(r.asked)}
	case errors.Is(err, errBusy):
		return r.busy(fmt.Errorf("%s is held by another: leave --nonblock out to wait for it", r.cfg.what()))
	case errors.Is(err, errLate) && !r.cfg.Try && r.claim != nil && r.claim.others():
		return r.busy(fmt.Errorf("%s was not available within %v: give a longer --timeout", r.cfg.what(), r.cfg.Timeout))
	case errors.Is(err, errLate): // whether another holds it is not known
		return failed(fmt.Errorf("%s was not available within %v: %w", r.cfg.what(), r.cfg.Timeout, r.silence()))
	}
	return failed(err)
}

// busy is the end where another holds the lock.
func (r *runner) busy(err error) error { return &cli.CodeError{Code: r.cfg.BusyCode, Err: err} }

// reasonFor is why what was held might not be held any more: what ended it, or if nothing has
// yet, why the command was ended before that. stood is the longest that this process stood still.
func reasonFor(cause error, stood, ttl time.Duration, guardStood bool) error {
	if over, ok := errors.AsType[*election.TermOverError](cause); ok {
		return over.Err // what is over is said beside it
	}
	switch {
	case cause != nil:
		return cause
	case guardStood:
		return errGuardStood
	case stood >= ttl/8:
		return errStood
	}
	return errUnconfirmed
}

// Why a command is ended while what it needs is still held.
var (
	errUnconfirmed = errors.New("etcd has not confirmed the session in time")
	errStood       = errors.New("goversed or its machine stood still, so that the guard was not notified in time that " +
		"all is well")
	errGuardStood = errors.New("the guard of the command stood still")
)
