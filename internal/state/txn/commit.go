package txn

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Commit sends t and blocks until etcd has answered or ctx ends. The responses belong to t.Then, or, if a
// guard did not hold (Succeeded is false), to t.Else. A member of etcd that is cut off from the others refuses
// with rpctypes.ErrNoLeader.
func Commit(ctx context.Context, kv clientv3.KV, t Txn) (*clientv3.TxnResponse, error) {
	tx := kv.Txn(clientv3.WithRequireLeader(ctx)).If(Comparisons(t.If)...)
	return tx.Then(etcdOps(t.Then)...).Else(etcdOps(t.Else)...).Commit()
}

// Comparisons returns the comparisons for the guards.
func Comparisons(guards []Guard) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(guards))
	for i, g := range guards {
		target := clientv3.CreateRevision(g.Key)
		if g.Field == ModRevision {
			target = clientv3.ModRevision(g.Key)
		}
		cmps[i] = clientv3.Compare(target, "=", g.Revision)
		if g.End != "" {
			cmps[i] = cmps[i].WithRange(g.End)
		}
	}
	return cmps
}

func etcdOps(ops []Op) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		var onRange []clientv3.OpOption
		if op.End != "" {
			onRange = append(onRange, clientv3.WithRange(op.End))
		}
		switch op.Kind {
		case Put:
			out[i] = clientv3.OpPut(op.Key, op.Value, clientv3.WithLease(clientv3.LeaseID(op.Lease)))
		case Delete:
			out[i] = clientv3.OpDelete(op.Key, onRange...)
		case Get:
			out[i] = clientv3.OpGet(op.Key, onRange...)
		case Count:
			out[i] = clientv3.OpGet(op.Key, append(onRange, clientv3.WithCountOnly())...)
		}
	}
	return out
}
