//go:build unix

package chaos

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
)

// fence guards writes in a shard like a store that keeps the greatest epoch it has seen. The epoch is stored in
// a key of its own, compared and written in the same transaction as the register.
type fence struct {
	client *clientv3.Client
	shard  int
	epoch  int64
}

// fenceKey returns the key of the greatest epoch seen.
func fenceKey(shard int) string { return fmt.Sprintf("/chaos/epoch/%d", shard) }

// sortableEpoch formats an epoch as text that sorts like the number, because etcd compares bytes.
func sortableEpoch(epoch int64) string { return fmt.Sprintf("%020d", epoch) }

// openFences creates the keys of the fences with epoch 0.
func openFences(ctx context.Context, client *clientv3.Client) error {
	for shard := range shardCount {
		if _, err := client.Put(ctx, fenceKey(shard), sortableEpoch(0)); err != nil {
			return err
		}
	}
	return nil
}

// Token returns the epoch.
func (f fence) Token() int64 { return f.epoch }

// Txn returns a transaction that fails with an error matching election.ErrTermOver if the store has seen a
// greater epoch.
func (f fence) Txn(ctx context.Context) clientv3.Txn {
	return &fencedTxn{fence: f, txn: f.client.Txn(ctx)}
}

type fencedTxn struct {
	fence
	txn  clientv3.Txn
	then []clientv3.Op
}

func (t *fencedTxn) If(...clientv3.Cmp) clientv3.Txn {
	panic("chaos: a fenced write compares nothing else")
}

func (t *fencedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

func (t *fencedTxn) Else(...clientv3.Op) clientv3.Txn {
	panic("chaos: a fenced write does nothing else")
}

// Commit sends the transaction.
func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	key := fenceKey(t.shard)
	resp, err := t.txn.If(clientv3.Compare(clientv3.Value(key), "<", sortableEpoch(t.epoch+1))).
		Then(append(t.then, clientv3.OpPut(key, sortableEpoch(t.epoch)))...).Commit()
	if err == nil && !resp.Succeeded {
		return nil, &election.TermOverError{Token: t.epoch, Reason: "a greater epoch was seen"}
	}
	return resp, err
}
