//go:build linux || darwin || freebsd || openbsd || dragonfly

package gated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/cli"
	"github.com/goverse/goverse/internal/gated/ending"
)

// Run waits until the lock is held or the election led, runs the command, releases when
// nothing of it is left, and returns nil or a cli.CodeError with the exit code. It blocks
// until then. An election is campaigned in again when leadership was lost. Signals that
// arrive are passed to the command's group; SIGINT, SIGTERM, SIGHUP and SIGQUIT end the wait
// for the lock or election, and SIGINT and SIGTERM have it run no further command.
// Run changes how this process gets orphaned descendants: one at a time.
func Run(cfg Config, signals <-chan os.Signal) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	r := &runner{cfg: cfg.withDefaults(), signals: signals}
	return r.run()
}

// runner is one call of Run.
type runner struct {
	cfg     Config
	signals <-chan os.Signal
	path    string // of the command
	cgroup  string // its directory, or ""
	claim   *claim
	asked   syscall.Signal // that ended the wait
	wished  bool           // a signal that asks for the end was passed to the command
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
	client, err := await(ctx, r, r.connect)
	switch {
	case r.asked != 0:
		if err == nil {
			_ = client.Close() // nothing was sent
		}
		return &cli.CodeError{Code: exitSignal + int(r.asked)}
	case errors.Is(err, errBusy):
		return &cli.CodeError{Code: r.cfg.BusyCode, Err: r.busy()}
	case err != nil:
		return failed(err)
	}
	if r.claim, err = newClaim(r.cfg, client); err != nil {
		_ = client.Close() // the configuration is wrong
		return failed(err)
	}
	defer r.claim.close()
	for {
		h, err := await(ctx, r, r.claim.take)
		switch {
		case err != nil && r.asked != 0:
			return &cli.CodeError{Code: exitSignal + int(r.asked)}
		case errors.Is(err, errBusy):
			return &cli.CodeError{Code: r.cfg.BusyCode, Err: r.busy()}
		case err != nil:
			return failed(r.explain(err))
		case r.asked != 0: // too late for the command
			h.idle()
			return &cli.CodeError{Code: exitSignal + int(r.asked)}
		}
		j, err := r.attend(h)
		h.idle()
		if err != nil {
			return failed(err)
		}
		if r.cfg.Election == "" || !j.lost() || r.wished {
			r.claim.close() // the lease, and with it what is held
			j.dismiss()
			return r.result(j)
		}
		r.cfg.Logger.Warn("leadership was lost and the command ended, campaigning again", "election", r.cfg.Election, "token", h.token, "reason", j.reason)
		r.giveUp(h)
		j.dismiss()
	}
}

// giveUp releases what may still be held; if etcd does not answer, it is given up as soon as
// it does.
func (r *runner) giveUp(h *held) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := h.giveUp(ctx); err != nil && ctx.Err() != nil {
		r.cfg.Logger.Warn("could not give leadership up yet, trying on", "election", r.cfg.Election, "error", err)
	}
}

// result is what the command came to.
func (r *runner) result(j *job) error {
	switch {
	case len(j.end.Refused) > 0:
		return &cli.CodeError{Code: j.end.Code, Err: errors.New(string(j.end.Refused))}
	case j.lost() && !r.wished:
		return &cli.CodeError{Code: ExitLost, Err: fmt.Errorf("%s was lost and the command ended: %s", r.cfg.what(), j.reason)}
	case j.end.Code == 0:
		return nil
	}
	j.passOn()
	return &cli.CodeError{Code: j.end.Code}
}

// bounded is the context of all that is waited for: what is to be had within Timeout is to be
// had from now on, whatever of it takes how long. Its cause is what to say then.
func (r *runner) bounded() (context.Context, context.CancelFunc) {
	if r.cfg.Lock == "" || r.cfg.Timeout == 0 {
		return context.WithCancel(context.Background())
	}
	why := errBusy
	if r.cfg.Try {
		why = fmt.Errorf("etcd did not answer within %v: check --etcd and that etcd runs there", r.cfg.Timeout)
	}
	return context.WithTimeoutCause(context.Background(), r.cfg.Timeout, why)
}

// connect tries until there is a client, or ctx ends: with a user, etcd must answer for that.
// Errors are ctx's cause, and those that are final.
func (r *runner) connect(ctx context.Context) (*clientv3.Client, error) {
	for said := false; ; said = true {
		client, err := r.cfg.Connect()
		if err == nil || r.cfg.Final(err) {
			return client, err
		}
		if !said {
			r.cfg.Logger.Warn("etcd does not answer, trying on", "error", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// await calls wait; a signal that asks for the end ends its context, and is noted.
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
			}
		}
	}
}

// busy says why the lock was not to be had.
func (r *runner) busy() error {
	switch {
	case r.cfg.Try:
		return fmt.Errorf("%s is held by another: leave --nonblock out to wait for it", r.cfg.what())
	case r.claim == nil, r.claim.keeper.Current() == nil:
		return fmt.Errorf("%s was not to be had within %v, for etcd did not answer in time: check --etcd and that etcd runs there", r.cfg.what(), r.cfg.Timeout)
	}
	return fmt.Errorf("%s was not to be had within %v: give a longer --timeout", r.cfg.what(), r.cfg.Timeout)
}

func failed(err error) error { return &cli.CodeError{Code: ExitFailed, Err: err} }

// explain names the remedy for what etcd refused.
func (r *runner) explain(err error) error {
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return err
	}
	root := r.cfg.Keys.Elections().Root()
	if r.cfg.Lock != "" {
		root = r.cfg.Keys.Locks().Root()
	}
	return fmt.Errorf("etcd refused the user: grant READ and WRITE on all of %s, or give another one with --etcd-user (%w)", root, err)
}

// endsWait: who waits is not there for other signals.
func endsWait(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// lost reports whether the command was ended because it might not run any more.
func (j *job) lost() bool { return j.end.Why == ending.Told || j.end.Why == ending.Deadline }
