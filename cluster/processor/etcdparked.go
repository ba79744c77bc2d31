package processor

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state/format"
)

// storedRetry is a request for a retry as stored in etcd.
type storedRetry struct {
	Position Position `json:"position"`
}

// parkedOps returns the operations that store what a batch changes of the parked events.
func (e *Etcd) parkedOps(name string, progress Progress) (ops []clientv3.Op, err error) {
	put := func(p Parked) (op clientv3.Op, err error) {
		value, err := format.Encode(p, nil)
		return clientv3.OpPut(e.keys.ParkedEvent(name, string(p.Position)), string(value)), err
	}
	for _, p := range progress.Parked {
		record, err := put(p)
		if err != nil {
			return nil, err
		}
		ops = append(ops, record, clientv3.OpDelete(e.keys.RetryOf(name, string(p.Position))))
	}
	for _, at := range progress.Handled {
		ops = append(ops, e.forgetOp(name, at))
	}
	if p := progress.Failed; p != nil {
		record, err := put(*p)
		if err != nil {
			return nil, err
		}
		stands := clientv3.Compare(clientv3.CreateRevision(e.keys.ParkedEvent(name, string(p.Position))), ">", 0)
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{stands}, []clientv3.Op{record}, nil),
			clientv3.OpDelete(e.keys.RetryOf(name, string(p.Position))))
	}
	return ops, nil
}

// forgetOp removes the record of a parked event and the request for its retry, as one operation.
func (e *Etcd) forgetOp(name string, at Position) clientv3.Op {
	return clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(e.keys.ParkedEvent(name, string(at))),
		clientv3.OpDelete(e.keys.RetryOf(name, string(at)))}, nil)
}

// Parked implements [Manager].
func (e *Etcd) Parked(ctx context.Context, name string) ([]Parked, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Txn(ctx).Then(
		clientv3.OpGet(e.keys.Parked(name), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend), clientv3.WithLimit(MaxParked)),
		clientv3.OpGet(e.keys.Retries(name), clientv3.WithPrefix(), clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return nil, fmt.Errorf("read the parked events of processor %q: %w", name, err)
	}
	retries := map[string]bool{}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		retries[string(kv.Key)] = true
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	parked := make([]Parked, len(kvs))
	for i, kv := range kvs {
		if err := format.DecodeKnown(string(kv.Key), kv.Value, &parked[i]); err != nil {
			return nil, unreadableError(name, "record of a parked event", string(kv.Key), err)
		}
		parked[i].Retry = retries[e.keys.RetryOf(name, string(parked[i].Position))]
	}
	return parked, nil
}

// ParkedEvent implements [Checkpoint].
func (e *Etcd) ParkedEvent(ctx context.Context, name string, at Position) (p Parked, err error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Txn(ctx).Then(clientv3.OpGet(e.keys.ParkedEvent(name, string(at))),
		clientv3.OpGet(e.keys.RetryOf(name, string(at)), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return Parked{}, fmt.Errorf("read the parked event of processor %q at %q: %w", name, at, err)
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return Parked{}, notParkedError(name, at)
	}
	if err := format.DecodeKnown(string(kvs[0].Key), kvs[0].Value, &p); err != nil {
		return Parked{}, unreadableError(name, "record of a parked event", string(kvs[0].Key), err)
	}
	p.Retry = resp.Responses[1].GetResponseRange().Count > 0
	return p, nil
}

// RequestRetry implements [Manager].
func (e *Etcd) RequestRetry(ctx context.Context, name string, at Position) error {
	if err := at.Validate(); err != nil {
		return fmt.Errorf("retry of processor %q: %w", name, err)
	}
	value, err := format.Encode(storedRetry{at}, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(e.keys.ParkedEvent(name, string(at))), ">", 0)).
		Then(clientv3.OpPut(e.keys.RetryOf(name, string(at)), string(value))).Commit()
	if err != nil {
		return fmt.Errorf("request the retry of processor %q at %q: %w", name, at, err)
	}
	if !resp.Succeeded {
		return notParkedError(name, at)
	}
	return nil
}

// Forget implements [Manager].
func (e *Etcd) Forget(ctx context.Context, name string, at Position) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	if _, err := e.client.Do(ctx, e.forgetOp(name, at)); err != nil {
		return fmt.Errorf("forget the parked event of processor %q at %q: %w", name, at, err)
	}
	return nil
}
