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
	return Collect(func(p Parts) (*clientv3.TxnResponse, error) { return f.Commit(ctx, kv, p) })
}

// Failed returns a transaction that sends nothing. Its Commit returns err.
func Failed(err error) clientv3.Txn {
	return Collect(func(Parts) (*clientv3.TxnResponse, error) { return nil, err })
}

// Commit nests the caller's transaction under the fence. That distinguishes a fence that does not hold from the
// caller's own comparisons.
func (f Fence) Commit(ctx context.Context, kv clientv3.KV, p Parts) (*clientv3.TxnResponse, error) {
	if err := f.CheckOver(); err != nil {
		return nil, err
	}
	resp, err := kv.Txn(clientv3.WithRequireLeader(ctx)).If(f.Guards...).
		Then(clientv3.OpTxn(p.If, p.Then, p.Else)).Commit()
	switch {
	case err != nil:
		return nil, err
	case !resp.Succeeded:
		return nil, f.RefusedError()
	}
	inner := (*clientv3.TxnResponse)(resp.Responses[0].GetResponseTxn())
	inner.Header = resp.Header
	return inner, nil
}
