package txn

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fence is the condition of a fenced transaction.
type Fence struct {
	// Guards hold if and only if the fenced thing stands.
	Guards []clientv3.Cmp
	// CheckOver is called before anything is sent. If it returns an error, Commit returns that.
	CheckOver func() error
	// RefusedError returns the error for a transaction if its guards did not hold in etcd.
	RefusedError func() error
}

// Fenced returns a transaction that etcd commits only while the fence holds. If it holds, Commit behaves like
// an ordinary transaction; Succeeded concerns the caller's own comparisons. It is not safe for concurrent use.
func Fenced(ctx context.Context, kv clientv3.KV, f Fence) clientv3.Txn {
	return &fencedTxn{ctx: ctx, kv: kv, fence: f}
}

type fencedTxn struct {
	ctx       context.Context
	kv        clientv3.KV
	fence     Fence
	cmps      []clientv3.Cmp
	then      []clientv3.Op
	otherwise []clientv3.Op
}

func (x *fencedTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	x.cmps = append(x.cmps, cs...)
	return x
}

func (x *fencedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	x.then = append(x.then, ops...)
	return x
}

func (x *fencedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	x.otherwise = append(x.otherwise, ops...)
	return x
}

// Commit nests the caller's transaction under the fence. That distinguishes a fence that does not hold from the
// caller's own comparisons.
func (x *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := x.fence.CheckOver(); err != nil {
		return nil, err
	}
	resp, err := x.kv.Txn(clientv3.WithRequireLeader(x.ctx)).If(x.fence.Guards...).
		Then(clientv3.OpTxn(x.cmps, x.then, x.otherwise)).Commit()
	switch {
	case err != nil:
		return nil, err
	case !resp.Succeeded:
		return nil, x.fence.RefusedError()
	}
	inner := (*clientv3.TxnResponse)(resp.Responses[0].GetResponseTxn())
	inner.Header = resp.Header
	return inner, nil
}
