package elector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
)

// Etcd is a lease store in etcd: a key without an etcd lease, compared by its ModRevision. It
// is a [LeaseWatcher], and safe for concurrent use.
type Etcd struct {
	client *clientv3.Client
	key    string
}

// NewEtcd returns the store of that name under a prefix of etcd's keys, as /goverse. The client is
// never closed. It asks etcd nothing.
func NewEtcd(client *clientv3.Client, prefix, name string) (*Etcd, error) {
	if client == nil {
		return nil, errors.New("elector: the etcd client is nil; make one with clientv3.New")
	}
	keys, err := state.NewKeys(prefix)
	if err != nil {
		return nil, fmt.Errorf("elector: %w", err)
	}
	if err := state.CheckName("election", name); err != nil {
		return nil, fmt.Errorf("elector: %w", err)
	}
	return &Etcd{client: client, key: keys.LeaseRecord(name)}, nil
}

// etcdRecord is a lease as etcd keeps it.
type etcdRecord struct {
	HolderIdentity    string        `json:"holderIdentity"`
	HolderInstance    string        `json:"holderInstance"`
	LeaseDuration     time.Duration `json:"leaseDurationNanoseconds"`
	AcquireTime       time.Time     `json:"acquireTime"`
	RenewTime         time.Time     `json:"renewTime"`
	LeaderTransitions int64         `json:"leaderTransitions"`
}

// GetLease implements [LeaseStore].
func (e *Etcd) GetLease(ctx context.Context) (Lease, error) {
	resp, err := e.client.Get(clientv3.WithRequireLeader(ctx), e.key)
	switch {
	case err != nil:
		return Lease{}, fmt.Errorf("read %s: %w", e.key, err)
	case len(resp.Kvs) == 0:
		return Lease{}, ErrNotFound
	}
	var r etcdRecord
	if err := json.Unmarshal(resp.Kvs[0].Value, &r); err != nil {
		return Lease{}, fmt.Errorf("%s holds no lease record; delete it if nothing else uses it: %w", e.key, err)
	}
	return lease(r, resp.Kvs[0].ModRevision), nil
}

// CreateLease implements [LeaseStore].
func (e *Etcd) CreateLease(ctx context.Context, lease Lease) (Lease, error) {
	return e.write(ctx, 0, lease, ErrExists)
}

// UpdateLease implements [LeaseStore].
func (e *Etcd) UpdateLease(ctx context.Context, lease Lease) (Lease, error) {
	modified, err := strconv.ParseInt(lease.Version, 16, 64)
	if err != nil || modified <= 0 {
		return Lease{}, ErrConflict
	}
	return e.write(ctx, modified, lease, ErrConflict)
}

// write writes the record if its ModRevision is the one given, or fails with other.
func (e *Etcd) write(ctx context.Context, modified int64, l Lease, other error) (Lease, error) {
	r := etcdRecord{l.HolderIdentity, l.HolderInstance, l.LeaseDuration, l.AcquireTime, l.RenewTime, l.LeaderTransitions}
	value, err := json.Marshal(r)
	if err != nil {
		return Lease{}, fmt.Errorf("write %s: %w", e.key, err)
	}
	resp, err := e.client.Txn(clientv3.WithRequireLeader(ctx)).
		If(clientv3.Compare(clientv3.ModRevision(e.key), "=", modified)).
		Then(clientv3.OpPut(e.key, string(value))).Commit()
	switch {
	case err != nil:
		return Lease{}, fmt.Errorf("write %s: %w", e.key, err)
	case !resp.Succeeded:
		return Lease{}, other
	}
	return lease(r, resp.Header.Revision), nil
}

func lease(r etcdRecord, modified int64) Lease {
	return Lease{HolderIdentity: r.HolderIdentity, HolderInstance: r.HolderInstance, LeaseDuration: r.LeaseDuration,
		AcquireTime: r.AcquireTime, RenewTime: r.RenewTime, LeaderTransitions: r.LeaderTransitions,
		Version: strconv.FormatInt(modified, 16)}
}

// WatchLease implements [LeaseWatcher].
func (e *Etcd) WatchLease(ctx context.Context, version string) error {
	modified, err := strconv.ParseInt(version, 16, 64)
	if err != nil {
		return nil // no record has that version
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	resp, ok := <-e.client.Watch(ctx, e.key, clientv3.WithRev(modified+1))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !ok:
		return fmt.Errorf("watch %s: %w", e.key, errWatchEnded)
	case resp.Err() != nil:
		return fmt.Errorf("watch %s: %w", e.key, resp.Err())
	}
	return nil
}

var errWatchEnded = errors.New("etcd's client ended the watch; is it closed?")
