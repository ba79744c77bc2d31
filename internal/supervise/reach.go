//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/cli"
	"github.com/goverse/goverse/internal/state"
)

const (
	// askRetry is the pause before etcd is asked again, and connectRetry the one before it is
	// connected to again: to check a password costs etcd a good part of a second of its time.
	askRetry, connectRetry = time.Second / 4, time.Second
	// firstAsk bounds the first request: to say soon that etcd does not answer.
	firstAsk = time.Second / 2
	// remindEvery is how often it is said that etcd still does not answer.
	remindEvery = 30 * time.Second
)

var (
	// errLate: the time for the wait is over.
	errLate = errors.New("not to be had in time")
	// errNested: it would wait for one that waits for it.
	errNested = errors.New("it would wait for itself for ever")
)

// bounded is the context of all that is waited for: what is to be had within Timeout is to be
// had from now on, whatever of it takes how long.
func (r *runner) bounded() (context.Context, context.CancelFunc) {
	if r.cfg.Lock == "" || r.cfg.Timeout == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeoutCause(context.Background(), r.cfg.Timeout, errLate)
}

// reach tries until etcd has answered a client, or ctx ends. Errors are ctx's cause, and those
// that stay however often it is tried.
func (r *runner) reach(ctx context.Context) (*clientv3.Client, error) {
	var client *clientv3.Client
	var said time.Time
	patience, retry := firstAsk, connectRetry
	for {
		var err error
		if client == nil {
			client, err = r.cfg.Connect()
		}
		if err == nil {
			if err = r.ask(ctx, client, patience); err == nil {
				if !said.IsZero() {
					r.cfg.Logger.Info("etcd answers")
				}
				return client, nil
			}
			patience, retry = requestTimeout, askRetry
		}
		why := r.away(ctx, err)
		if why == nil && time.Since(said) >= remindEvery {
			said = time.Now()
			r.cfg.Logger.Warn("etcd does not answer, trying on: check --etcd (GOVERSE_ETCD) and that etcd runs there", "error",
				r.unanswered)
		}
		if why == nil {
			select {
			case <-time.After(retry):
				continue
			case <-ctx.Done():
				why = context.Cause(ctx)
			}
		}
		if client != nil {
			_ = client.Close() // nothing was written
		}
		return nil, why
	}
}

// away decides what an error of Connect or ask means: nil, and it is tried on, or why not.
func (r *runner) away(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNested), r.cfg.Final(err):
		return err
	case refused(err):
		return r.explain(err)
	}
	if err = r.cfg.Why(ctx, err); r.cfg.Final(err) {
		return err
	}
	r.unanswered = err
	return nil
}

// ask asks etcd something that whoever queues asks it, too.
func (r *runner) ask(ctx context.Context, client *clientv3.Client, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, name := r.cfg.kind()
	if _, err := client.Get(ctx, r.cfg.queues().Bucket(name), clientv3.WithPrefix(),
		clientv3.WithCountOnly()); err != nil {
		return err
	}
	for _, key := range r.cfg.around() {
		// It is there as long as who runs this process has it, and has it in this etcd.
		if resp, err := client.Get(ctx, key, clientv3.WithCountOnly()); err != nil {
			return err
		} else if resp.Count > 0 {
			return r.nested()
		}
	}
	return nil
}

// keysEnv has the keys of all goversed exec and lock that a command runs under, the last one's
// last.
const keysEnv = "GOVERSE_KEYS"

// around are the keys of those around this process for which it would wait as they wait for it.
func (c Config) around() []string {
	if c.Try {
		return nil // it does not wait
	}
	_, mine := c.kind()
	var out []string
	for _, key := range strings.Fields(lookup(c.Env, keysEnv)) {
		if name, ok := c.queues().NameOf(key); ok && name == mine && !(c.Shared && state.TraitsOf(key).Shared) {
			out = append(out, key)
		}
	}
	return out
}

// lookup is a variable's value; the last one counts.
func lookup(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

func (r *runner) nested() error {
	if r.cfg.Election != "" {
		return fmt.Errorf("%s is led by the goversed exec that this one runs under, and %w: run the command itself, or "+
			"give another --election", r.cfg.what(), errNested)
	}
	return fmt.Errorf("%s is held by the goversed lock that this one runs under, and %w: run the command itself, or "+
		"give another NAME", r.cfg.what(), errNested)
}

// ended is the end of a wait that came to nothing.
func (r *runner) ended(err error) error {
	switch {
	case r.asked != 0:
		return &cli.CodeError{Code: exitSignal + int(r.asked)}
	case errors.Is(err, errBusy):
		return r.busy(fmt.Errorf("%s is held by another: leave --nonblock out to wait for it", r.cfg.what()))
	case errors.Is(err, errLate) && !r.cfg.Try && r.claim != nil && r.claim.others():
		return r.busy(fmt.Errorf("%s was not to be had within %v: give a longer --timeout", r.cfg.what(), r.cfg.Timeout))
	case errors.Is(err, errLate): // whether another holds it is not known
		return failed(fmt.Errorf("%s was not to be had within %v, for etcd did not answer: check --etcd and that etcd "+
			"runs there%s",
			r.cfg.what(), r.cfg.Timeout, r.reason()))
	}
	return failed(err)
}

// busy is the end where another holds the lock.
func (r *runner) busy(err error) error { return &cli.CodeError{Code: r.cfg.BusyCode, Err: err} }

// reason is why etcd could not be reached, in brackets, if that is known.
func (r *runner) reason() string {
	if r.claim != nil || r.unanswered == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", r.unanswered)
}

// refused reports whether etcd refuses this user, or that there is none.
func refused(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// explain names the remedy for what etcd refused.
func (r *runner) explain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("etcd wants a user: give --etcd-user (GOVERSE_ETCD_USER), and the password as "+
			"GOVERSE_ETCD_PASSWORD (%w)", err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("etcd refused the user: grant READ and WRITE on all of %s, or give another one with --etcd-user "+
			"(%w)", r.cfg.queues().Root(), err)
	}
	return err
}
