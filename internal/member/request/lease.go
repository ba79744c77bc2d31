package request

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// leaseTTL is how long a request stands at the most that could not be withdrawn.
	leaseTTL = 5 * time.Second
	// withdrawTimeout bounds withdrawing it.
	withdrawTimeout = time.Second
)

// withdrawRetry is the pause before that is tried again.
var withdrawRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 200 * time.Millisecond}

// open opens the session that one request stands on, which is of its own. Its end, by withdraw, withdraws the
// request, also where etcd's answer to it was lost and nobody knows whether it stands, and where it is still in
// flight: etcd puts nothing on a lease that is gone. withdraw must be called; it blocks, also if ctx has ended,
// until etcd confirmed, for a second at the most; the request then ends within leaseTTL.
func open(ctx context.Context, client *clientv3.Client,
	keys state.Keys) (s *etcdsession.Session, withdraw func(), err error) {
	s, err = etcdsession.Open(ctx, etcdsession.Config{Client: client, TTL: leaseTTL, ReadKey: keys.Request()})
	if err != nil {
		return nil, nil, err
	}
	return s, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		retry := backoff.Backoff{Policy: withdrawRetry}
		for s.Close(ctx) != nil && wait.For(ctx, retry.Next()) {
		}
	}, nil
}

// unmade is the error of a request that could not be written, or of which that is not known: etcd's, or if ctx has
// ended its cause, and the error of a request of which nothing came in time.
func unmade(ctx context.Context, err, inTime error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: etcd did not answer: %w", inTime, context.Cause(ctx))
}
