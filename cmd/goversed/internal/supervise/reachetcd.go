//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/connect"
)

// errWaitTimeout is returned when the time for the wait is over.
var errWaitTimeout = errors.New("not free in time")

// reach opens a session in etcd or PostgreSQL, or begins to. It retries until the store has answered, or ctx ends.
// Errors are ctx's cause, and errors that retrying cannot cure.
func (r *runner) reach(ctx context.Context) (*claim, error) {
	if r.cfg.inPostgres() {
		return r.reachPostgres(ctx)
	}
	client, err := r.reachEtcd(ctx)
	if err != nil {
		return nil, err
	}
	c, err := newEtcdClaim(r.cfg, client)
	if err != nil {
		_ = client.Close() // the configuration is wrong
	}
	return c, err
}

// waitContext returns the context for all waiting. Timeout covers all of it, from now on.
func (r *runner) waitContext() (context.Context, context.CancelFunc) {
	if r.cfg.Lock == "" || r.cfg.Timeout == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeoutCause(context.Background(), r.cfg.Timeout, errWaitTimeout)
}

// reachEtcd retries until etcd has answered a client, or ctx ends. Errors are ctx's cause, and errors that retrying
// cannot cure.
func (r *runner) reachEtcd(ctx context.Context) (*clientv3.Client, error) {
	var nested error
	client, err := r.cfg.Etcd.AwaitAnswer(ctx, connect.Question{
		Ask: func(ctx context.Context, client *clientv3.Client) (err error) {
			nested, err = r.askEtcd(ctx, client)
			return err
		},
		Timeout: requestTimeout, Needs: r.neededRights()})
	switch {
	case err != nil && ctx.Err() != nil:
		r.lastReachError = err
		return nil, context.Cause(ctx)
	case err == nil && nested != nil:
		_ = client.Close() // nothing was written
		return nil, nested
	}
	return client, err
}

// askEtcd sends etcd a read that every candidate needs the right to do. Nested is not nil if this process would
// wait for itself.
func (r *runner) askEtcd(ctx context.Context, client *clientv3.Client) (nested, err error) {
	_, name := r.cfg.kindAndName()
	if _, err := client.Get(ctx, r.cfg.claimQueues().BucketPrefix(name), clientv3.WithPrefix(),
		clientv3.WithCountOnly()); err != nil {
		return nil, err
	}
	for _, key := range r.cfg.outerKeys() {
		// The key exists if the process around this one still holds it, and holds it in this etcd.
		if resp, err := client.Get(ctx, key, clientv3.WithCountOnly()); err != nil {
			return nil, err
		} else if resp.Count > 0 {
			return r.nestedError(), nil
		}
	}
	return nil, nil
}

// silenceError returns the reason why etcd or PostgreSQL did not answer in time.
func (r *runner) silenceError() error {
	if r.lastReachError != nil {
		return r.lastReachError
	}
	return r.explainError(context.Background(), context.DeadlineExceeded)
}

// explainError adds the remedy to an error of etcd, or to its silence. Errors of PostgreSQL have theirs.
func (r *runner) explainError(ctx context.Context, err error) error {
	if r.cfg.inPostgres() {
		return err
	}
	return r.cfg.Etcd.Explain(ctx, err, r.neededRights())
}

// neededRights names the rights that etcd's user needs.
func (r *runner) neededRights() string {
	return "READ and WRITE on all of " + r.cfg.claimQueues().Root()
}
