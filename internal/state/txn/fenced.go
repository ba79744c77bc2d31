package txn

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fence is the condition of a fenced transaction.
type Fence struct {
	// Guards hold exactly while what is fenced stands.
	Guards []clientv3.Cmp
	// Over is asked before anything is sent: an error ends it there.
	Over func() error
	// Refused is the error of a transaction whose guards etcd found not to hold.
	Refused func() error
}

// Fenced is a transaction that etcd commits only while the fence holds. Its Commit otherwise
// answers as an ordinary transaction does: Succeeded tells of the caller's own comparisons.
// One caller at a time.
func Fenced(ctx context.Context, kv clientv3.KV, f Fence) clientv3.Txn {
	return &fencedTxn{ctx: ctx, kv: kv, fence: f}
}

type fencedTxn struct {
	ctx   context.Context
	kv    clientv3.KV
	fence Fence
	cmps  []clientv3.Cmp
	then  []clientv3.Op
	els   []clientv3.Op
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
	x.els = append(x.els, ops...)
	return x
}

// Commit nests the caller's transaction under the fence, so that a fence that does not hold
// is told apart from the caller's own comparisons.
func (x *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := x.fence.Over(); err != nil {
		return nil, err
	}
	resp, err := x.kv.Txn(clientv3.WithRequireLeader(x.ctx)).If(x.fence.Guards...).
		Then(clientv3.OpTxn(x.cmps, x.then, x.els)).Commit()
	switch {
	case err != nil:
		return nil, err
	case !resp.Succeeded:
		return nil, x.fence.Refused()
	}
	inner := (*clientv3.TxnResponse)(resp.Responses[0].GetResponseTxn())
	inner.Header = resp.Header
	return inner, nil
}
