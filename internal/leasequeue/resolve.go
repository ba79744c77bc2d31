package leasequeue

import (
	"context"
	"errors"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// resolveFailure determines whether a failed attempt was committed, as far as that can be known now. err is set if it
// cannot.
func (l *lane) resolveFailure(failure error) (committed bool, err error) {
	if errors.Is(failure, rpctypes.ErrNoSpace) { // nothing can be put, but reads are answered
		return l.readOutcome()
	}
	l.attemptOpen = l.attemptOpen || !neverCommitted(failure)
	if !l.attemptOpen {
		return false, nil
	}
	return l.resolveOutcome()
}

// neverCommitted reports whether the error proves that the attempt was not committed and never will be. ErrNoSpace
// proves nothing: etcd may return it and still commit requests that were in flight when its space ran out.
func neverCommitted(err error) bool {
	for _, refusal := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps, rpctypes.ErrLeaseNotFound,
		rpctypes.ErrRequestTooLarge} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// commitNext sends a transaction on the condition that the counter is as the last known batch left it. Otherwise the
// answer has the counter.
func (l *lane) commitNext(then ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return l.r.commitTxn(l.r.ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(l.counter), "=", l.modified)},
		then, []clientv3.Op{clientv3.OpGet(l.counter)})
}

// resolveOutcome determines whether the last batch was committed. If it was not, it never will be.
func (l *lane) resolveOutcome() (committed bool, err error) {
	resp, err := l.commitNext(clientv3.OpPut(l.counter, "", clientv3.WithLease(l.r.session.ID())))
	switch {
	case err != nil:
		return false, err
	case resp.Succeeded:
		l.setCounterRevision(resp.Header.Revision)
		return false, nil
	}
	return l.adoptTxnCounter(resp), nil
}

// readOutcome determines whether the last batch has been committed. If it was not, an unanswered attempt still may be.
func (l *lane) readOutcome() (committed bool, err error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := l.r.e.cfg.Client.Get(ctx, l.counter)
	switch {
	case err != nil:
		l.attemptOpen = true // it has to be assumed
		return false, err
	case len(resp.Kvs) == 0 && l.modified == 0, len(resp.Kvs) > 0 && resp.Kvs[0].ModRevision == l.modified:
		return false, nil
	}
	return l.adoptCounter(resp.Kvs), nil
}

// setCounterRevision records the counter's new ModRevision. No earlier attempt can be committed any more.
func (l *lane) setCounterRevision(modified int64) {
	l.modified, l.attemptOpen = modified, false
	if len(l.barred) > 0 {
		l.r.e.withLock(func() { l.r.keyring.unbarResolved(l.barred) })
		l.barred = nil
	}
}

// adoptTxnCounter adopts the counter as a failed transaction returned it, and reports whether the last batch was
// committed.
func (l *lane) adoptTxnCounter(resp *clientv3.TxnResponse) bool {
	return l.adoptCounter(resp.Responses[0].GetResponseRange().Kvs)
}

// adoptCounter is adoptTxnCounter for a counter that was read and differs from the last known one.
func (l *lane) adoptCounter(kvs []*mvccpb.KeyValue) bool {
	if len(kvs) == 0 {
		l.setCounterRevision(0)
		return false
	}
	l.setCounterRevision(kvs[0].ModRevision)
	return string(kvs[0].Value) == strconv.FormatInt(l.number, 10)
}

// completeBatch notifies the entries of a committed batch if its answer was lost. It returns an error when the session
// is lost.
func (l *lane) completeBatch(batch []queueOp) error {
	var trying []queueOp
	l.r.e.withLock(func() {
		for _, o := range batch {
			switch {
			case !o.creates:
				l.keyDeleted(o)
			case o.entry.Try:
				trying = append(trying, o)
			default: // its watch notifies it when it is first, even if it already is
				l.keyCreated(o, l.modified, false)
			}
		}
	})
	return commitInParts(trying, maxReadsPerTxn, l.notifyTryEntries)
}

// notifyTryEntries determines for created entries with Try whether they are first, and notifies them. It returns what
// is to be halved, and an error when the session is lost.
func (l *lane) notifyTryEntries(created []queueOp) (refused []queueOp, _ error) {
	ops := make([]clientv3.Op, len(created))
	for i, o := range created {
		ops[i] = readQueueOp(o.entry)
	}
	for retry := l.r.e.newBackoff(laneRetry); ; {
		resp, err := l.r.commitTxn(l.r.ctx, nil, ops, nil)
		switch {
		case err == nil:
			l.r.e.withLock(func() {
				for i, o := range created {
					found := (*clientv3.GetResponse)(resp.Responses[i].GetResponseRange())
					l.keyCreated(o, l.modified, ahead(o.entry, found))
				}
			})
			return nil, nil
		case halvable(err) && len(created) > 1:
			return created, nil
		case errors.Is(err, rpctypes.ErrPermissionDenied): // its watch has to report it instead
			l.r.e.withLock(func() { l.keyCreated(created[0], l.modified, false) })
			return nil, nil
		case !wait.For(l.r.ctx, retry.Next()):
			return nil, context.Cause(l.r.ctx)
		}
	}
}
