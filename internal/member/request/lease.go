package request

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// leaseTTL limits the life of a request that could not be withdrawn.
	leaseTTL = 5 * time.Second
	// withdrawTimeout limits the attempts to withdraw a request.
	withdrawTimeout = time.Second
)

// withdrawRetry is the pause between two attempts to withdraw.
var withdrawRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 200 * time.Millisecond}

// openSession opens a session for one request. withdraw ends that session and with it the request. That also covers a
// request with a lost answer, and one that is still in flight, because etcd puts nothing on a lease that is
// gone. The caller must call withdraw. It blocks until etcd has confirmed, even if ctx has ended, for a second
// at most; without confirmation the request ends within leaseTTL.
func openSession(ctx context.Context, client *clientv3.Client,
	keys state.Keys) (s *etcdsession.Session, withdraw func(), err error) {
	s, err = etcdsession.Open(ctx, etcdsession.Config{Process: etcd.Process{Client: client, Keys: keys}, TTL: leaseTTL})
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

// unwrittenError returns the error of a request that could not be written, or that may not have been. It is etcd's
// error err, or, if ctx has ended, inTime with ctx's cause.
func unwrittenError(ctx context.Context, err, inTime error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: etcd did not answer: %w", inTime, context.Cause(ctx))
}
