//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/connect"
)

// errLate is returned when the time for the wait is over.
var errLate = errors.New("not free in time")

// bounded returns the context for all waiting. Timeout covers all of it, from now on.
func (r *runner) bounded() (context.Context, context.CancelFunc) {
	if r.cfg.Lock == "" || r.cfg.Timeout == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeoutCause(context.Background(), r.cfg.Timeout, errLate)
}

// reach retries until etcd has answered a client, or ctx ends. Errors are ctx's cause, and errors that retrying
// cannot cure.
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

// ask sends etcd a read that every candidate needs the right to do. Nested is not nil if this process would
// wait for itself.
func (r *runner) ask(ctx context.Context, client *clientv3.Client) (nested, err error) {
	_, name := r.cfg.kind()
	if _, err := client.Get(ctx, r.cfg.queues().Bucket(name), clientv3.WithPrefix(),
		clientv3.WithCountOnly()); err != nil {
		return nil, err
	}
	for _, key := range r.cfg.outerKeys() {
		// The key exists if the process around this one still holds it, and holds it in this etcd.
		if resp, err := client.Get(ctx, key, clientv3.WithCountOnly()); err != nil {
			return nil, err
		} else if resp.Count > 0 {
			return r.nested(), nil
		}
	}
	return nil, nil
}

// silence returns the reason why etcd did not answer in time.
func (r *runner) silence() error {
	if r.unanswered != nil {
		return r.unanswered
	}
	return r.explain(context.Background(), context.DeadlineExceeded)
}

// explain adds the remedy to an error of etcd, or to its silence.
func (r *runner) explain(ctx context.Context, err error) error {
	return r.cfg.Etcd.Explain(ctx, err, r.needs())
}

// needs names the rights that etcd's user needs.
func (r *runner) needs() string { return "READ and WRITE on all of " + r.cfg.queues().Root() }
