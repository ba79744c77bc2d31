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

// learn finds out what came of an attempt that has failed, as far as that can be known now. err is why it cannot.
func (l *lane) learn(failure error) (committed bool, err error) {
	if errors.Is(failure, rpctypes.ErrNoSpace) { // nothing can be put, but etcd answers what is asked
		return l.look()
	}
	l.open = l.open || !refused(failure)
	if !l.open {
		return false, nil
	}
	return l.resolve()
}

// refused reports whether the error says that the attempt was not committed, and never will be. ErrNoSpace does not:
// etcd carries out what was on its way when its space was used up, and says so all the same.
func refused(err error) bool {
	for _, refusal := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps, rpctypes.ErrLeaseNotFound,
		rpctypes.ErrRequestTooLarge} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// tooLarge reports whether etcd takes no request so long, or whether its client does not send it or its server not
// read it. It may also be the answer that is too long for the client, to an attempt that was committed.
func tooLarge(err error) bool {
	if errors.As(err, new(rpctypes.EtcdError)) {
		return errors.Is(err, rpctypes.ErrRequestTooLarge)
	}
	return status.Code(err) == codes.ResourceExhausted
}

// resolve finds out whether the last batch was committed; if it was not, it never will be.
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

// look finds out whether the last batch has been committed. If it was not, an attempt that was not answered still may
// be.
func (l *lane) look() (committed bool, err error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := l.r.e.cfg.Client.Get(ctx, l.counter)
	switch {
	case err != nil:
		l.open = true // for all that is known
		return false, err
	case len(resp.Kvs) == 0 && l.modified == 0, len(resp.Kvs) > 0 && resp.Kvs[0].ModRevision == l.modified:
		return false, nil
	}
	return l.counts(resp.Kvs), nil
}

// resolved: the counter was written at that revision, so that no attempt of before is committed
// any more.
func (l *lane) resolved(modified int64) {
	l.modified, l.open = modified, false
	if len(l.barred) > 0 {
		l.r.e.with(func() { l.r.keyring.unbar(l.barred) })
		l.barred = nil
	}
}

// acknowledged takes over what the counter is, as a transaction found it that was not committed, and
// reports whether it says that the last batch was.
func (l *lane) acknowledged(resp *clientv3.TxnResponse) bool {
	return l.counts(resp.Responses[0].GetResponseRange().Kvs)
}

// counts is acknowledged of the counter as it was read, which is not as it was left.
func (l *lane) counts(kvs []*mvccpb.KeyValue) bool {
	if len(kvs) == 0 {
		l.resolved(0)
		return false
	}
	l.resolved(kvs[0].ModRevision)
	return string(kvs[0].Value) == strconv.FormatInt(l.number, 10)
}

// complete notifies the entries of a batch that was committed and whose answer was lost. It returns
// false when the session is lost.
func (l *lane) complete(batch []op) bool {
	var trying []op
	l.r.e.with(func() {
		for _, o := range batch {
			switch {
			case !o.enter:
				l.left(o)
			case o.entry.Try:
				trying = append(trying, o)
			default: // it is notified when it is first, if it is already
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

// find notifies entries that were created, and would not wait, whether they are first. It returns false when the
// session is lost.
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
		case denied: // its watch has to report it, then
			l.r.e.with(func() { l.entered(created[0], l.modified, false) })
			return true
		case !wait.For(l.r.ctx, retry.Next()):
			return false
		}
	}
}
