package txn

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Commit sends t and blocks until etcd has answered or ctx ends. The responses belong to t.Then, or, if a
// guard did not hold (Succeeded is false), to t.Else. A member of etcd that is cut off from the others refuses
// with rpctypes.ErrNoLeader.
func Commit(ctx context.Context, kv clientv3.KV, t Txn) (*clientv3.TxnResponse, error) {
	return kv.Txn(clientv3.WithRequireLeader(ctx)).If(Cmps(t.If)...).Then(ops(t.Then)...).Else(ops(t.Else)...).Commit()
}

// Cmps returns the comparisons for the guards.
func Cmps(guards []Guard) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(guards))
	for i, g := range guards {
		target := clientv3.CreateRevision(g.Key)
		if g.Field == ModRevision {
			target = clientv3.ModRevision(g.Key)
		}
		cmps[i] = clientv3.Compare(target, "=", g.Is)
		if g.End != "" {
			cmps[i] = cmps[i].WithRange(g.End)
		}
	}
	return cmps
}

func ops(ops []Op) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case Put:
			out[i] = clientv3.OpPut(op.Key, op.Value, clientv3.WithLease(clientv3.LeaseID(op.Lease)))
		case Delete:
			out[i] = clientv3.OpDelete(op.Key)
		case Get:
			out[i] = clientv3.OpGet(op.Key)
		}
	}
	return out
}
