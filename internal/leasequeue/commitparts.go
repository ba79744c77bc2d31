package leasequeue

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// commitTxn sends a transaction, and blocks until etcd answers, RequestTimeout has passed, or ctx ends.
func (r *sessionRun) commitTxn(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op) (
	*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := r.e.cfg.Client.Txn(ctx).If(when...).Then(then...).Else(otherwise...).Commit()
	if err == nil {
		r.recordTerm(resp.Header)
	}
	return resp, err
}

// commitInParts calls commit for all elements, at most limit at a time. commit returns the elements to be sent again in
// two halves, because etcd refused them together: at least two, or none. The first error ends commitInParts.
func commitInParts[T any](all []T, limit int, commit func(part []T) (refused []T, err error)) error {
	for part := range slices.Chunk(all, limit) {
		refused, err := commit(part)
		if err == nil && len(refused) > 0 {
			err = commitInParts(refused, (len(refused)+1)/2, commit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// halvable reports whether etcd may accept a part of the request that it refused with err.
func halvable(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrTooManyOps) || tooLarge(err)
}

// tooLarge reports whether a request or an answer is too long for etcd or for either end of the connection. If
// the answer is too long, the attempt was committed.
func tooLarge(err error) bool {
	if errors.As(err, new(rpctypes.EtcdError)) {
		return errors.Is(err, rpctypes.ErrRequestTooLarge)
	}
	return status.Code(err) == codes.ResourceExhausted
}
