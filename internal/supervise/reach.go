//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/cli"
	"github.com/goverse/goverse/internal/reach"
	"github.com/goverse/goverse/internal/state"
)

var (
	// errLate: the time for the wait is over.
	errLate = errors.New("not free in time")
	// errNested: it would wait for one that waits for it.
	errNested = errors.New("it would wait for itself forever")
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
	var nested error
	client, err := r.cfg.Etcd.Await(ctx, reach.Question{
		Ask: func(ctx context.Context, client *clientv3.Client) (err error) {
			nested, err = r.ask(ctx, client)
			return err
		},
		Timeout: requestTimeout, Needs: r.needs()})
	switch {
	case err != nil && ctx.Err() != nil:
		r.unanswered = err
		return nil, context.Cause(ctx)
	case err == nil && nested != nil:
		_ = client.Close() // nothing was written
		return nil, nested
	}
	return client, err
}

// ask asks etcd something that all who queue ask it, too. nested: this one would wait for itself.
func (r *runner) ask(ctx context.Context, client *clientv3.Client) (nested, err error) {
	_, name := r.cfg.kind()
	if _, err := client.Get(ctx, r.cfg.queues().Bucket(name), clientv3.WithPrefix(),
		clientv3.WithCountOnly()); err != nil {
		return nil, err
	}
	for _, key := range r.cfg.around() {
		// It is there as long as who runs this process has it, and has it in this etcd.
		if resp, err := client.Get(ctx, key, clientv3.WithCountOnly()); err != nil {
			return nil, err
		} else if resp.Count > 0 {
			return r.nested(), nil
		}
	}
	return nil, nil
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
		return r.busy(fmt.Errorf("%s was not available within %v: give a longer --timeout", r.cfg.what(), r.cfg.Timeout))
	case errors.Is(err, errLate): // whether another holds it is not known
		return failed(fmt.Errorf("%s was not available within %v: %w", r.cfg.what(), r.cfg.Timeout, r.silence()))
	}
	return failed(err)
}

// busy is the end where another holds the lock.
func (r *runner) busy(err error) error { return &cli.CodeError{Code: r.cfg.BusyCode, Err: err} }

// silence is why etcd did not answer in time.
func (r *runner) silence() error {
	if r.unanswered != nil {
		return r.unanswered
	}
	return r.explain(context.Background(), context.DeadlineExceeded)
}

// explain names the remedy for what etcd refused, or its silence.
func (r *runner) explain(ctx context.Context, err error) error {
	return r.cfg.Etcd.Explain(ctx, err, r.needs())
}

// needs are the rights that etcd's user needs.
func (r *runner) needs() string { return "READ and WRITE on all of " + r.cfg.queues().Root() }
