//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Run waits until this process holds the lock or leads the election, and runs the command. It releases the lock
// or leadership when nothing of the command is left, and returns nil or a cli.ExitCodeError with the exit code. It
// blocks until then. If leadership is lost, Run campaigns again.
//
// Run passes signals on to the command's group. While it waits for the lock or election, SIGINT, SIGTERM,
// SIGHUP and SIGQUIT end the wait. After SIGINT or SIGTERM, Run starts no further command. A second of these
// two signals, at least half a second after the first, kills the command's group, and so does the end of the
// grace period after the first.
//
// Only one Run may run at a time, because it changes how this process adopts orphaned descendants.
func Run(cfg Config, signals <-chan os.Signal) error {
	if err := cfg.Validate(); err != nil {
		return failed(err)
	}
	r := &runner{cfg: cfg.withDefaults(), signals: signals}
	defer logqueue.Flush(context.Background(), r.cfg.Logger)
	return r.run()
}

// runner is one call of Run.
type runner struct {
	cfg          Config
	signals      <-chan os.Signal
	path         string // of the command
	cgroup       string // its directory, or ""
	claim        *claim
	waitSignal   syscall.Signal // the signal that ended the wait; 0: none
	endRequested bool           // a signal that asks for the end was passed on to the command
	// lastReachError is the error of the last attempt to reach etcd or PostgreSQL.
	lastReachError error
}

func (r *runner) run() (err error) {
	if r.path, err = exec.LookPath(r.cfg.Command[0]); err != nil {
		code, why := startFailure(r.cfg.Command[0], err)
		return &cli.ExitCodeError{Code: code, Err: errors.New(why)}
	}
	if err := adoptOrphans(); err != nil {
		return failed(err)
	}
	if r.cfg.Cgroup {
		if r.cgroup, err = newCgroup(); err != nil {
			return failed(err)
		}
		defer removeCgroup(r.cgroup)
	}
	ctx, cancel := r.waitContext()
	defer cancel()
	r.claim, err = awaitOrSignal(ctx, r, r.reach)
	if err == nil {
		defer r.claim.close()
	}
	if err != nil || r.waitSignal != 0 {
		return r.waitError(err)
	}
	for {
		h, err := awaitOrSignal(ctx, r, r.claim.acquire)
		if err == nil && r.waitSignal != 0 {
			h.declareIdle() // too late to run the command
		}
		if err != nil || r.waitSignal != 0 {
			return r.waitError(r.explainError(ctx, err))
		}
		r.logHeld(h)
		j, err := r.runCommand(h)
		h.declareIdle()
		if err != nil {
			return failed(err)
		}
		again := r.cfg.Election != "" && j.endedByLoss() && !r.endRequested
		r.logEnd(h, j, again)
		if !again {
			r.claim.close() // ends the session, which releases the lock or leadership
			j.dismissGuard()
			return r.commandError(j)
		}
		r.releaseTerm(h, j)
		j.dismissGuard()
	}
}

// releaseTerm releases leadership if it is still held. If the store does not answer, leadership is released as soon as
// it does. The log only warns of that if another candidate requested the leadership.
func (r *runner) releaseTerm(h *heldClaim, j *job) {
	level := hclog.Debug
	if errors.Is(j.lossReason, elections.ErrGaveWay) {
		level = hclog.Warn
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := h.release(ctx); err != nil && ctx.Err() != nil {
		r.cfg.Logger.Log(level, "could not give leadership up yet, retrying", "election", r.cfg.Election, "error", err)
	}
}

// commandError returns the error of Run after the command's end.
func (r *runner) commandError(j *job) error {
	switch {
	case len(j.lastReport.Refused) > 0:
		return &cli.ExitCodeError{Code: j.lastReport.Code, Err: errors.New(string(j.lastReport.Refused))}
	case j.endedByLoss() && !r.endRequested:
		return &cli.ExitCodeError{Code: ExitLost,
			Err: fmt.Errorf("%s was lost and the command ended: %w", r.cfg.describe(), j.lossReason)}
	case j.lastReport.Code == 0:
		return nil
	}
	j.passTerminalSignal()
	return &cli.ExitCodeError{Code: j.lastReport.Code}
}

// awaitOrSignal calls wait. A signal that asks for the end cancels wait's context and is stored in r.waitSignal.
func awaitOrSignal[T any](ctx context.Context, r *runner, wait func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		value, err := wait(ctx)
		answers <- answer{value, err}
	}()
	for {
		select {
		case a := <-answers:
			return a.value, a.err
		case s := <-r.signals:
			if sig, ok := s.(syscall.Signal); ok && endsWait(sig) && r.waitSignal == 0 {
				r.waitSignal = sig
				cancel()
				r.cfg.Logger.Info("a signal ends the wait", "signal", sig.String())
			}
		}
	}
}

// endsWait reports whether a signal ends the wait. Other signals are ignored while waiting.
func endsWait(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// endedByLoss reports whether the command was ended because it was no longer allowed to run.
func (j *job) endedByLoss() bool {
	return j.lastReport.Why == ending.EndOrdered || j.lastReport.Why == ending.DeadlineReached
}
