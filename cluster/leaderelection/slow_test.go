package leaderelection

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// slowKV is a distant etcd: every transaction takes a while. It counts them.
type slowKV struct {
	clientv3.KV
	delay time.Duration
	txns  atomic.Int64
}

func (kv *slowKV) Txn(ctx context.Context) clientv3.Txn {
	kv.txns.Add(1)
	return slowTxn{kv.KV.Txn(ctx), ctx, kv.delay}
}

type slowTxn struct {
	clientv3.Txn
	ctx   context.Context
	delay time.Duration
}

func (x slowTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { x.Txn = x.Txn.If(cs...); return x }
func (x slowTxn) Then(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Then(ops...); return x }
func (x slowTxn) Else(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Else(ops...); return x }

func (x slowTxn) Commit() (*clientv3.TxnResponse, error) {
	select {
	case <-time.After(x.delay):
	case <-x.ctx.Done():
		return nil, x.ctx.Err()
	}
	return x.Txn.Commit()
}

func farAway(client *clientv3.Client, delay time.Duration) (*clientv3.Client, *slowKV) {
	kv := &slowKV{KV: client.KV, delay: delay}
	far := clientv3.NewCtxClient(context.Background())
	far.KV, far.Lease, far.Watcher = kv, client.Lease, client.Watcher
	return far, kv
}

// A waiting candidate that loses its key queues anew with a handful of requests, however distant etcd is. An
// earlier version cancelled its own attempts.
func TestRejoinsOnceHoweverFarEtcdIs(t *testing.T) {
	client := etcdtest.Client(t)
	a := start(t, client, "a:1")
	awaitLeads(t, a)
	far, kv := farAway(client, 20*time.Millisecond)
	b := start(t, far, "b:1")
	own, _ := b.mirror.Snapshot().CandidateOn(int64(b.keeper.Current().ID()))
	before := kv.txns.Load()
	_, err := client.Delete(etcdtest.Context(t), own.Key)
	require.NoError(t, err)
	_, err = a.mirror.Wait(etcdtest.Context(t), func(s *state.Snapshot) bool {
		return len(s.Queue) == 2 && s.Queue[1].CreateRevision > own.CreateRevision
	})
	require.NoError(t, err)
	require.LessOrEqual(t, kv.txns.Load()-before, int64(6))
}

// A stop that is cut short ends even if a campaign is about to begin.
func TestStopCutShortWhileRejoining(t *testing.T) {
	client := etcdtest.Client(t)
	a := start(t, client, "a:1")
	awaitLeads(t, a)
	far, kv := farAway(client, 50*time.Millisecond)
	b := stands(t, far, "b:1")
	require.NoError(t, b.Start(etcdtest.Context(t)))
	own, _ := b.mirror.Snapshot().CandidateOn(int64(b.keeper.Current().ID()))
	before := kv.txns.Load()
	_, err := client.Delete(etcdtest.Context(t), own.Key)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return kv.txns.Load() > before }, 5*time.Second, time.Millisecond)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan struct{})
	go func() { _ = b.Stop(ended); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("Stop hangs")
	}
}
