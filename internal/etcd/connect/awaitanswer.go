package connect

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// askRetry is the policy for the delay before etcd is asked again. Checking a password costs etcd a good part
// of a tenth of a second.
var askRetry = backoff.Policy{First: time.Second / 10, Last: time.Second}

// permanentAfter is the time for which a lasting cause must be seen before it counts, unless etcd itself reported
// it.
const permanentAfter = 2 * time.Second

// remindEvery is the interval at which the log repeats that etcd does not answer.
const remindEvery = 30 * time.Second

// Question describes a question for etcd.
type Question struct {
	// Ask sends the question. It is called again until it returns nil or a permanent error.
	Ask func(ctx context.Context, client *clientv3.Client) error
	// Timeout bounds each call of Ask.
	Timeout time.Duration
	// Needs names the rights that a user needs for the question: "READ on ...".
	Needs string
}

// AwaitAnswer blocks until etcd has answered the question, and returns the client. The caller closes that client,
// unless the Config comes from ForClient or ForMade. A permanent cause (see IsPermanent) ends the wait: immediately if
// etcd itself refused the user, otherwise after two seconds. In all other cases it retries until ctx ends. It warns
// when etcd has not answered for half a second, and again every half minute. When ctx ends, it returns the reason
// why etcd did not answer; if that was not found before the deadline of ctx, finding it takes up to two more
// seconds per address. Errors match ErrUnreachable, ErrNotEtcd or ErrDenied.
func (c Config) AwaitAnswer(ctx context.Context, q Question) (*clientv3.Client, error) {
	c = c.withDefaults()
	c.OnWait = nil // it logs, because it may take long
	client, said := c.client, c.newOutageLog(ctx)
	retry := backoff.Backoff{Policy: askRetry}
	var lasting *problem // a lasting cause, seen at every attempt since the time below
	var since time.Time
	for {
		err := c.runQuestion(ctx, func(ctx context.Context) (err error) {
			if client == nil {
				if client, err = c.dialClient(ctx); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(ctx, q.Timeout)
			defer cancel()
			return q.Ask(ctx, client)
		}, said)
		if err == nil {
			said.logRecovery()
			return client, nil
		}
		p := c.asProblem(ctx, err, q.Needs)
		switch {
		case !p.isPermanent():
			lasting = nil
		case lasting == nil || lasting.cause != p.cause:
			lasting, since = p, time.Now()
		}
		if ctx.Err() == nil && (lasting == nil || !p.countsAtOnce(c) && time.Since(since) < permanentAfter) {
			if lasting == nil {
				said.logOutage(p)
			}
			if wait.For(ctx, retry.Next()) {
				continue
			}
		}
		if p.cause == unknownCause && said.lastProblem != nil {
			p = said.lastProblem // the end of ctx does not explain more
		}
		if client != nil && c.client == nil {
			_ = client.Close() // nothing was written
		}
		return nil, p
	}
}

// asProblem explains err, which may be any error.
func (c Config) asProblem(ctx context.Context, err error, needs string) *problem {
	if p, ok := errors.AsType[*problem](c.explain(ctx, err, needs)); ok {
		return p
	}
	return c.newProblem(unknownCause, "", err)
}
