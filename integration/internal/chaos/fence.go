//go:build unix

package chaos

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/state/txn"
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

// Txn returns a transaction that fails with an error matching leaderelection.ErrTermOver if the store has seen a
// greater epoch.
func (f fence) Txn(ctx context.Context) clientv3.Txn {
	return txn.Collect(func(p txn.Parts) (*clientv3.TxnResponse, error) { return f.commit(ctx, p) })
}

func (f fence) commit(ctx context.Context, p txn.Parts) (*clientv3.TxnResponse, error) {
	if len(p.If)+len(p.Else) > 0 {
		panic("chaos: a fenced write compares nothing else, and does nothing else")
	}
	key := fenceKey(f.shard)
	resp, err := f.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "<", sortableEpoch(f.epoch+1))).
		Then(append(p.Then, clientv3.OpPut(key, sortableEpoch(f.epoch)))...).Commit()
	if err == nil && !resp.Succeeded {
		return nil, &leaderelection.TermOverError{Token: f.epoch, Reason: "a greater epoch was seen"}
	}
	return resp, err
}
