package leasequeue

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/wait"
)

// learn determines whether a failed attempt was committed, as far as that can be known now. err is set if it
// cannot.
func (l *lane) learn(failure error) (committed bool, err error) {
	if errors.Is(failure, rpctypes.ErrNoSpace) { // nothing can be put, but reads are answered
		return l.look()
	}
	l.open = l.open || !refused(failure)
	if !l.open {
		return false, nil
	}
	return l.resolve()
}

// refused reports whether the error proves that the attempt was not committed and never will be. ErrNoSpace
// proves nothing: etcd may return it and still commit requests that were in flight when its space ran out.
func refused(err error) bool {
	for _, refusal := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps, rpctypes.ErrLeaseNotFound,
		rpctypes.ErrRequestTooLarge} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// tooLarge reports whether a request or an answer is too long for etcd or for either end of the connection. If
// the answer is too long, the attempt was committed.
func tooLarge(err error) bool {
	if errors.As(err, new(rpctypes.EtcdError)) {
		return errors.Is(err, rpctypes.ErrRequestTooLarge)
	}
	return status.Code(err) == codes.ResourceExhausted
}

// resolve determines whether the last batch was committed. If it was not, it never will be.
func (l *lane) resolve() (committed bool, err error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := l.r.e.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.counter), "=", l.modified)).
		Then(clientv3.OpPut(l.counter, "", clientv3.WithLease(l.r.s.ID()))).Else(clientv3.OpGet(l.counter)).Commit()
	switch {
	case err != nil:
		return false, err
	case resp.Succeeded:
		l.resolved(resp.Header.Revision)
		return false, nil
	}
	return l.acknowledged(resp), nil
}

// look determines whether the last batch has been committed. If it was not, an unanswered attempt still may be.
func (l *lane) look() (committed bool, err error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := l.r.e.cfg.Client.Get(ctx, l.counter)
	switch {
	case err != nil:
		l.open = true // it has to be assumed
		return false, err
	case len(resp.Kvs) == 0 && l.modified == 0, len(resp.Kvs) > 0 && resp.Kvs[0].ModRevision == l.modified:
		return false, nil
	}
	return l.counts(resp.Kvs), nil
}

// resolved records the counter's new ModRevision. No earlier attempt can be committed any more.
func (l *lane) resolved(modified int64) {
	l.modified, l.open = modified, false
	if len(l.barred) > 0 {
		l.r.e.with(func() { l.r.keyring.unbar(l.barred) })
		l.barred = nil
	}
}

// acknowledged adopts the counter as a failed transaction returned it, and reports whether the last batch was
// committed.
func (l *lane) acknowledged(resp *clientv3.TxnResponse) bool {
	return l.counts(resp.Responses[0].GetResponseRange().Kvs)
}

// counts is acknowledged for a counter that was read and differs from the last known one.
func (l *lane) counts(kvs []*mvccpb.KeyValue) bool {
	if len(kvs) == 0 {
		l.resolved(0)
		return false
	}
	l.resolved(kvs[0].ModRevision)
	return string(kvs[0].Value) == strconv.FormatInt(l.number, 10)
}

// complete notifies the entries of a committed batch if its answer was lost. It returns false when the session
// is lost.
func (l *lane) complete(batch []op) bool {
	var trying []op
	l.r.e.with(func() {
		for _, o := range batch {
			switch {
			case !o.enter:
				l.left(o)
			case o.entry.Try:
				trying = append(trying, o)
			default: // its watch notifies it when it is first, even if it already is
				l.entered(o, l.modified, false)
			}
		}
	})
	for some := range slices.Chunk(trying, mostReads) {
		if !l.find(some) {
			return false
		}
	}
	return true
}

// find determines for created entries with Try whether they are first, and notifies them. It returns false when
// the session is lost.
func (l *lane) find(created []op) bool {
	ops := make([]clientv3.Op, len(created))
	for i, o := range created {
		ops[i] = readQueue(o.entry)
	}
	for retry := l.r.e.retry(laneRetry); ; {
		ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
		resp, err := l.r.e.cfg.Client.Txn(ctx).Then(ops...).Commit()
		cancel()
		denied := errors.Is(err, rpctypes.ErrPermissionDenied)
		switch half := len(created) / 2; {
		case err == nil:
			l.r.saw(resp.Header)
			l.r.e.with(func() {
				for i, o := range created {
					found := (*clientv3.GetResponse)(resp.Responses[i].GetResponseRange())
					l.entered(o, l.modified, ahead(o.entry, found))
				}
			})
			return true
		case half > 0 && (denied || errors.Is(err, rpctypes.ErrTooManyOps)):
			return l.find(created[:half]) && l.find(created[half:])
		case denied: // its watch has to report it instead
			l.r.e.with(func() { l.entered(created[0], l.modified, false) })
			return true
		case !wait.For(l.r.ctx, retry.Next()):
			return false
		}
	}
}
