package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/reach"
)

// firstAsk is how long etcd has to answer before it is looked at who is there.
const firstAsk = time.Second / 2

// inquire puts a question to etcd, until ctx ends. Where there is no answer after firstAsk it looks
// at the addresses: what can never be etcd ends the question there, what may be slow does not. It
// waits for that look also when the answer has come. Errors are those of question, and of away.
func (o *Operator) inquire(ctx context.Context, question func(ctx context.Context) error) error {
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var looking sync.WaitGroup
	var seen error // read after looking, as lasts is
	var lasts bool
	answered := make(chan struct{})
	looking.Go(func() {
		first := time.NewTimer(firstAsk)
		defer first.Stop()
		select {
		case <-first.C:
		case <-answered:
			return
		case <-ctx.Done():
			return
		}
		if seen, lasts = o.away(ctx, context.DeadlineExceeded); lasts {
			giveUp()
		}
	})
	err := question(asking)
	close(answered)
	looking.Wait()
	if err != nil && (lasts || seen != nil && unanswered(err)) {
		return seen
	}
	return err
}

// open makes the client; with a user, etcd answers for that. A wait for that cannot be cut short, so
// what is there is asked without a user first.
func (o *Operator) open(timeout time.Duration) (*clientv3.Client, error) {
	until := time.Now().Add(timeout)
	o.cfg.DialTimeout = timeout
	if o.cfg.Username == "" {
		return reach.Connect(o.cfg)
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	nobody := o.cfg
	nobody.Username, nobody.Password, nobody.Credentials = "", "", nil
	client, err := reach.Connect(nobody)
	if err != nil {
		return nil, err
	}
	defer client.Close() // nothing was written
	err = o.inquire(ctx, func(ctx context.Context) error {
		_, err := client.Get(ctx, o.keys.RangeStart(), clientv3.WithCountOnly())
		return err
	})
	if err = o.explain(ctx, err); errors.Is(err, cluster.ErrEtcdUnreachable) || errors.Is(err, cluster.ErrNotEtcd) {
		return nil, err
	}
	// It is etcd, whatever it thinks of nobody. No time left would be all the time.
	o.cfg.DialTimeout = max(time.Until(until), time.Millisecond)
	return reach.Connect(o.cfg)
}

// away is what a request that err ended means, with the remedy: an error that matches
// cluster.ErrNotEtcd or cluster.ErrEtcdUnreachable. lasts: etcd will not come.
func (o *Operator) away(ctx context.Context, err error) (why error, lasts bool) {
	_, why = reach.Why(ctx, o.cfg, err)
	switch lasts = reach.Lasts(why); {
	case errors.Is(why, cluster.ErrNotEtcd):
		return why, lasts
	case lasts:
		return fmt.Errorf("%w: %w", cluster.ErrEtcdUnreachable, why), lasts
	}
	return fmt.Errorf("%w at %s: check --etcd and that etcd runs there (%w)", cluster.ErrEtcdUnreachable,
		o.cfg.EtcdAddress, why), lasts
}

// unanswered reports whether a request ended without etcd's answer.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, codes.Unavailable, codes.DeadlineExceeded)
}
