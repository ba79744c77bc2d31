//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/connect"
)

// errLate: the time for the wait is over.
var errLate = errors.New("not free in time")

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
	client, err := r.cfg.Etcd.Await(ctx, connect.Question{
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
