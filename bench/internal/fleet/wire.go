package fleet

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// wire wraps one node's requests on a connection that it may share. It counts the Range requests, and while the
// node is muted it blocks all requests. Watches always pass.
type wire struct {
	ranges atomic.Int64
	muted  atomic.Pointer[chan struct{}] // closed by unmute; nil if not muted
}

// client returns a client that uses base's connection through w.
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

// pass blocks while the node is muted, or until ctx ends.
func (w *wire) pass(ctx context.Context) {
	if c := w.muted.Load(); c != nil {
		select {
		case <-*c:
		case <-ctx.Done():
		}
	}
}

// wiredKV wraps the requests that a node uses: reads and transactions.
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

// wiredLease blocks renewals, and thereby everything a node does about a lost session.
type wiredLease struct {
	clientv3.Lease
	wire *wire
}

func (l wiredLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	l.wire.pass(ctx)
	return l.Lease.KeepAliveOnce(ctx, id)
}
