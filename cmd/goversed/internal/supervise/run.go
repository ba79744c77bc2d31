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
// or leadership when nothing of the command is left, and returns nil or a cli.CodeError with the exit code. It
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
	cfg       Config
	signals   <-chan os.Signal
	path      string // of the command
	cgroup    string // its directory, or ""
	claim     *claim
	asked     syscall.Signal // the signal that ended the wait; 0: none
	requested bool           // a signal that asks for the end was passed on to the command
	// unanswered is the error of the last attempt to reach etcd.
	unanswered error
}

func (r *runner) run() (err error) {
	if r.path, err = exec.LookPath(r.cfg.Command[0]); err != nil {
		code, why := notRunnable(r.cfg.Command[0], err)
		return &cli.CodeError{Code: code, Err: errors.New(why)}
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
	ctx, cancel := r.bounded()
	defer cancel()
	client, err := await(ctx, r, r.reach)
	if err == nil && r.asked != 0 {
		_ = client.Close() // nothing was sent
	}
	if err != nil || r.asked != 0 {
		return r.ended(err)
	}
	if r.claim, err = newClaim(r.cfg, client); err != nil {
		_ = client.Close() // the configuration is wrong
		return failed(err)
	}
	defer r.claim.close()
	for {
		h, err := await(ctx, r, r.claim.take)
		if err == nil && r.asked != 0 {
			h.idle() // too late to run the command
		}
		if err != nil || r.asked != 0 {
			return r.ended(r.explain(ctx, err))
		}
		r.sayHeld(h)
		j, err := r.attend(h)
		h.idle()
		if err != nil {
			return failed(err)
		}
		again := r.cfg.Election != "" && j.lost() && !r.requested
		r.sayEnd(h, j, again)
		if !again {
			r.claim.close() // revokes the lease, which releases the lock or leadership
			j.dismiss()
			return r.result(j)
		}
		r.giveUp(h, j)
		j.dismiss()
	}
}

// giveUp releases leadership if it is still held. If etcd does not answer, leadership is released as soon as it
// does. The log only warns of that if another candidate requested the leadership.
func (r *runner) giveUp(h *held, j *job) {
	level := hclog.Debug
	if errors.Is(j.reason, elections.ErrGaveWay) {
		level = hclog.Warn
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := h.giveUp(ctx); err != nil && ctx.Err() != nil {
		r.cfg.Logger.Log(level, "could not give leadership up yet, retrying", "election", r.cfg.Election, "error", err)
	}
}

// result returns the error of Run after the command's end.
func (r *runner) result(j *job) error {
	switch {
	case len(j.end.Refused) > 0:
		return &cli.CodeError{Code: j.end.Code, Err: errors.New(string(j.end.Refused))}
	case j.lost() && !r.requested:
		return &cli.CodeError{Code: ExitLost,
			Err: fmt.Errorf("%s was lost and the command ended: %w", r.cfg.what(), j.reason)}
	case j.end.Code == 0:
		return nil
	}
	j.passOn()
	return &cli.CodeError{Code: j.end.Code}
}

// await calls wait. A signal that asks for the end cancels wait's context and is stored in r.asked.
func await[T any](ctx context.Context, r *runner, wait func(context.Context) (T, error)) (T, error) {
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
			if sig, ok := s.(syscall.Signal); ok && endsWait(sig) && r.asked == 0 {
				r.asked = sig
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

// lost reports whether the command was ended because it was no longer allowed to run.
func (j *job) lost() bool { return j.end.Why == ending.Ordered || j.end.Why == ending.Deadline }
