package registration

import (
	"context"
	"errors"
	"time"
)

// markTimeout limits the requests that a stopping process makes only for the sake of others. They take a millisecond
// unless etcd is away.
const markTimeout = time.Second

// Leave takes a process out for good that takes part in the election only. It records that the process stops, so that
// its end is no crash; calls withdraw, which ends the candidacy and the work of a leader; records that the others need
// not wait for this process, unless withdraw returned an error; ends the session and revokes its lease; calls closed,
// which ends the goroutines of the election; and waits for all of its own. It returns the errors of withdraw and of the
// revocation.
func (r *Registration) Leave(ctx context.Context, withdraw func(context.Context) error, closed func()) error {
	_, _ = r.MarkStopping(ctx) // if it fails, the others wait for the session's end
	err := withdraw(ctx)
	if err == nil {
		r.MarkLeft(ctx)
	}
	err = errors.Join(err, r.EndSession())
	closed()
	r.Close()
	return err
}

// WithMarkTimeout returns a context for requests that this process makes only for the sake of others.
func (r *Registration) WithMarkTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(r.cfg.RequestTimeout, markTimeout))
}

// MarkStopping records that this process stops. It reports whether etcd has confirmed that, so that the others can know
// it and take over. The error is the cause of ctx, if ctx ended before.
func (r *Registration) MarkStopping(ctx context.Context) (confirmed bool, err error) {
	r.Membership.MarkStopping()
	if s := r.Keeper.Current(); s == nil || !s.Period().ValidDespitePause() {
		return false, nil
	}
	marking, cancel := r.WithMarkTimeout(ctx)
	defer cancel()
	if confirmed = r.Membership.AwaitRecorded(marking) == nil; confirmed {
		return true, nil
	}
	return false, context.Cause(ctx)
}

// MarkLeft records that the others need not wait for this process. All its work must have ended. Without the record
// they wait, because they cannot distinguish this process from one that does not know that its lease is gone.
func (r *Registration) MarkLeft(ctx context.Context) {
	s := r.Keeper.Current()
	if s == nil || !s.Period().ValidDespitePause() || s.RaftTerm() >= r.Mirror.KnownTerm() {
		return
	}
	r.Membership.MarkLeft()
	ctx, cancel := r.WithMarkTimeout(ctx)
	defer cancel()
	_ = r.Membership.AwaitRecorded(ctx) // if it fails, the others wait
}

// EndSession ends the session and revokes its lease. If etcd does not answer, it blocks for about a second longer and
// returns etcd's error; the keys then stay until the lease ends.
func (r *Registration) EndSession() error {
	r.stopKeeper()
	<-r.keeperDone
	return r.Keeper.RevokeError()
}

// Close ends the remaining goroutines and waits for them. Call EndSession first.
func (r *Registration) Close() {
	r.stopBackground()
	r.background.Wait()
}
