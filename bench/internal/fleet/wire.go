package fleet

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// wire is what one node's requests pass through on their way to a connection that it
// may share: its Range requests are counted, and while it is mute none of them gets
// through. Its watch always does.
type wire struct {
	ranges atomic.Int64
	muted  atomic.Pointer[chan struct{}] // closed when it may speak again; nil: it may
}

// client is a client over base's connection.
func (w *wire) client(base *clientv3.Client) *clientv3.Client {
	c := clientv3.NewCtxClient(base.Ctx())
	c.KV = wiredKV{KV: base.KV, wire: w}
	c.Lease = wiredLease{Lease: base.Lease, wire: w}
	c.Watcher, c.Maintenance = base.Watcher, base.Maintenance
	return c
}

func (w *wire) mute() {
	c := make(chan struct{})
	w.muted.Store(&c)
}

func (w *wire) unmute() {
	if c := w.muted.Swap(nil); c != nil {
		close(*c)
	}
}

// pass blocks while the node is mute, or until ctx ends.
func (w *wire) pass(ctx context.Context) {
	if c := w.muted.Load(); c != nil {
		select {
		case <-*c:
		case <-ctx.Done():
		}
	}
}

// wiredKV has what a node uses: reads and transactions.
type wiredKV struct {
	clientv3.KV
	wire *wire
}

func (kv wiredKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	kv.wire.pass(ctx)
	kv.wire.ranges.Add(1)
	return kv.KV.Get(ctx, key, opts...)
}

func (kv wiredKV) Txn(ctx context.Context) clientv3.Txn {
	kv.wire.pass(ctx)
	return kv.KV.Txn(ctx)
}

// wiredLease holds renewals back, and so all that a node does about a lost session.
type wiredLease struct {
	clientv3.Lease
	wire *wire
}

func (l wiredLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	l.wire.pass(ctx)
	return l.Lease.KeepAliveOnce(ctx, id)
}
