package connect

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// askRetry is the pause before etcd is asked again. To check a password costs etcd a good part of a second
// of its time.
var askRetry = backoff.Policy{First: time.Second / 10, Last: time.Second}

// certainAfter is how long what lasts has to be seen, where etcd itself did not say so.
const certainAfter = 2 * time.Second

// remindEvery is how often it is said that etcd still does not answer.
const remindEvery = 30 * time.Second

// Question is what etcd has to answer.
type Question struct {
	// Ask puts it. It is called again until it returns nil, or an error that lasts.
	Ask func(ctx context.Context, client *clientv3.Client) error
	// Timeout bounds each call of Ask.
	Timeout time.Duration
	// Needs are the rights that a user needs for it: "READ on ...".
	Needs string
}

// Await blocks until etcd has answered the question, and returns the client, which the caller closes unless
// it was given. What lasts (see Lasts) ends it: at once where etcd itself refuses the user, and else when
// it has lasted for two seconds. Otherwise it keeps trying until ctx ends, and warns once
// etcd has not answered for half a second and every half minute. The error then is why etcd did not answer;
// where that was not seen before the deadline of ctx, to see it takes up to two seconds per address more.
// Errors match ErrUnreachable, ErrNotEtcd or ErrDenied.
func (c Config) Await(ctx context.Context, q Question) (*clientv3.Client, error) {
	c = c.withDefaults()
	client, said := c.given, c.report(ctx)
	retry := backoff.Backoff{Policy: askRetry}
	var lasting *problem // that was seen at every try since
	var since time.Time
	for {
		err := c.ask(ctx, func(ctx context.Context) (err error) {
			if client == nil {
				if client, err = c.dial(ctx); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(ctx, q.Timeout)
			defer cancel()
			return q.Ask(ctx, client)
		}, said.away)
		if err == nil {
			said.answered()
			return client, nil
		}
		p := c.asProblem(ctx, err, q.Needs)
		switch {
		case !p.lasts():
			lasting = nil
		case lasting == nil || lasting.cause != p.cause:
			lasting, since = p, time.Now()
		}
		if ctx.Err() == nil && (lasting == nil || !p.certain(c) && time.Since(since) < certainAfter) {
			if lasting == nil {
				said.away(p)
			}
			if wait.For(ctx, retry.Next()) {
				continue
			}
		}
		if p.cause == unknown && said.last != nil {
			p = said.last // the end of ctx is no better reason
		}
		if client != nil && c.given == nil {
			_ = client.Close() // nothing was written
		}
		return nil, p
	}
}

// asProblem is the explanation of err, which may be any.
func (c Config) asProblem(ctx context.Context, err error, needs string) *problem {
	if p, ok := errors.AsType[*problem](c.explain(ctx, err, needs)); ok {
		return p
	}
	return c.problem(unknown, "", err)
}
