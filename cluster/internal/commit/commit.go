// Package commit sends changes to etcd: the one place where they become etcd's own
// operations.
//
// Not promised: that a change for which an error came was not made, or will not be
// made later.
package commit

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/internal/change"
)

// Change sends c and blocks until etcd answered or ctx ends. The responses are
// those to c.Then, or if a guard did not hold (Succeeded is false) to c.Else. A member
// of etcd that is cut off from the others refuses, with rpctypes.ErrNoLeader.
func Change(ctx context.Context, kv clientv3.KV, c change.Change) (*clientv3.TxnResponse, error) {
	return kv.Txn(clientv3.WithRequireLeader(ctx)).If(Guards(c.If)...).Then(ops(c.Then)...).Else(ops(c.Else)...).Commit()
}

// Guards are the comparisons that hold if the guards do.
func Guards(guards []change.Guard) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(guards))
	for i, g := range guards {
		target := clientv3.CreateRevision(g.Key)
		if g.Field == change.ModRevision {
			target = clientv3.ModRevision(g.Key)
		}
		cmps[i] = clientv3.Compare(target, "=", g.Is)
		if g.End != "" {
			cmps[i] = cmps[i].WithRange(g.End)
		}
	}
	return cmps
}

func ops(ops []change.Op) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case change.Put:
			out[i] = clientv3.OpPut(op.Key, op.Value, clientv3.WithLease(clientv3.LeaseID(op.Lease)))
		case change.Delete:
			out[i] = clientv3.OpDelete(op.Key)
		case change.Get:
			out[i] = clientv3.OpGet(op.Key)
		}
	}
	return out
}
