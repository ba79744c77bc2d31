package etcdfault

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state/txn"
)

// wrapClient injects the faults into a client.
func (f *Faults) wrapClient(client *clientv3.Client) {
	client.KV = faultyKV{KV: client.KV, f: f}
	client.Lease = faultyLease{Lease: client.Lease, f: f}
	client.Watcher = faultyWatcher{Watcher: client.Watcher, f: f}
	client.Maintenance = faultyMaintenance{Maintenance: client.Maintenance, f: f}
}

// sendRequest sends one request through the faults.
func sendRequest[T any](ctx context.Context, f *Faults, r Request, send func(context.Context) (T, error)) (T, error) {
	var nothing T
	rule := f.takeRule(r)
	switch {
	case rule == nil:
	case rule.err != nil:
		return nothing, rule.err
	case rule.held != nil:
		rule.held.send = func(ctx context.Context) error {
			_, err := send(ctx)
			return err
		}
		close(rule.held.caught)
		return nothing, f.awaitNoAnswer(ctx)
	}
	if r.Op == OpKeepAlive {
		if err := f.renewing.waitOpen(ctx, f.dead); err != nil {
			return nothing, err
		}
	}
	if err := f.linked.waitOpen(ctx, f.dead); err != nil {
		return nothing, err
	}
	v, err := send(ctx)
	if rule != nil && rule.lose {
		return nothing, f.awaitNoAnswer(ctx)
	}
	if err := f.linked.waitOpen(ctx, f.dead); err != nil {
		return nothing, err // the answer is lost
	}
	return v, err
}

// awaitNoAnswer blocks until ctx ends or the node is killed, as a request does that gets no answer.
func (f *Faults) awaitNoAnswer(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.dead:
		return errKilled
	}
}

type faultyKV struct {
	clientv3.KV
	f *Faults
}

func (kv faultyKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	request := opRequest(clientv3.OpGet(key, opts...))
	return sendRequest(ctx, kv.f, request, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return kv.KV.Get(ctx, key, opts...)
	})
}

func (kv faultyKV) GetStream(ctx context.Context, key string,
	opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	request := opRequest(clientv3.OpGet(key, opts...))
	return sendRequest(ctx, kv.f, request, func(ctx context.Context) (clientv3.GetStreamChan, error) {
		return kv.KV.GetStream(ctx, key, opts...)
	})
}

func (kv faultyKV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	request := opRequest(clientv3.OpPut(key, val, opts...))
	return sendRequest(ctx, kv.f, request, func(ctx context.Context) (*clientv3.PutResponse, error) {
		return kv.KV.Put(ctx, key, val, opts...)
	})
}

func (kv faultyKV) Delete(ctx context.Context, key string,
	opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	request := opRequest(clientv3.OpDelete(key, opts...))
	return sendRequest(ctx, kv.f, request, func(ctx context.Context) (*clientv3.DeleteResponse, error) {
		return kv.KV.Delete(ctx, key, opts...)
	})
}

func (kv faultyKV) Compact(ctx context.Context, rev int64,
	opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return sendRequest(ctx, kv.f, Request{Op: opOther}, func(ctx context.Context) (*clientv3.CompactResponse, error) {
		return kv.KV.Compact(ctx, rev, opts...)
	})
}

func (kv faultyKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return sendRequest(ctx, kv.f, opRequest(op), func(ctx context.Context) (clientv3.OpResponse, error) {
		return kv.KV.Do(ctx, op)
	})
}

func (kv faultyKV) Txn(ctx context.Context) clientv3.Txn {
	return txn.Collect(func(p txn.Parts) (*clientv3.TxnResponse, error) {
		then, otherwise := copyOps(p.Then), copyOps(p.Else)
		send := func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return kv.KV.Txn(ctx).If(p.If...).Then(then...).Else(otherwise...).Commit()
		}
		return sendRequest(ctx, kv.f, txnRequest(then, otherwise), send)
	})
}

// copyOps returns a deep copy of ops, because they are sent later and the caller may reuse its memory.
func copyOps(ops []clientv3.Op) []clientv3.Op {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.IsTxn() {
			cmps, then, els := op.Txn()
			ops[i] = clientv3.OpTxn(slices.Clone(cmps), copyOps(then), copyOps(els))
		}
	}
	return ops
}

type faultyLease struct {
	clientv3.Lease
	f *Faults
}

func (l faultyLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	return sendRequest(ctx, l.f, Request{Op: OpGrant}, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return l.Lease.Grant(ctx, ttl)
	})
}

func (l faultyLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return sendRequest(ctx, l.f, Request{Op: OpRevoke}, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return l.Lease.Revoke(ctx, id)
	})
}

func (l faultyLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return sendRequest(ctx, l.f, Request{Op: OpKeepAlive}, func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse,
		error) {
		return l.Lease.KeepAliveOnce(ctx, id)
	})
}

func (l faultyLease) TimeToLive(ctx context.Context, id clientv3.LeaseID,
	opts ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return sendRequest(ctx, l.f, Request{Op: opOther}, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse,
		error) {
		return l.Lease.TimeToLive(ctx, id, opts...)
	})
}

type faultyMaintenance struct {
	clientv3.Maintenance
	f *Faults
}

func (m faultyMaintenance) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	return sendRequest(ctx, m.f, Request{Op: opOther}, func(ctx context.Context) (*clientv3.StatusResponse, error) {
		return m.Maintenance.Status(ctx, endpoint)
	})
}
