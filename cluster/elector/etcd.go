package elector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

// Etcd is a lease store in etcd: a key without an etcd lease, compared by its ModRevision. It is a
// [LeaseWatcher] and safe for concurrent use.
type Etcd struct {
	client *clientv3.Client
	key    string
	rests  format.RestCache
}

// EtcdConfig configures a lease store in etcd. Client and Name are required.
type EtcdConfig struct {
	// Client is the etcd client. It is never closed.
	Client *clientv3.Client
	// Prefix is the prefix of the record's key. Default /goverse.
	Prefix string
	// Name names the record, with 1 to 512 bytes: candidates with the same Prefix and Name compete.
	Name string
}

func (c EtcdConfig) withDefaults() EtcdConfig {
	c.Prefix = cmp.Or(c.Prefix, "/goverse")
	return c
}

// Validate returns an error that matches [ErrBadConfig] if the configuration is invalid.
func (c EtcdConfig) Validate() error {
	if c.Client == nil {
		return fmt.Errorf("%w: EtcdConfig.Client is nil; make one with clientv3.New", ErrBadConfig)
	}
	if _, err := state.NewKeys(c.withDefaults().Prefix); err != nil {
		return fmt.Errorf("%w: EtcdConfig.Prefix: %w", ErrBadConfig, err)
	}
	if err := state.CheckName("election", c.Name); err != nil {
		return fmt.Errorf("%w: EtcdConfig.Name: %w", ErrBadConfig, err)
	}
	return nil
}

// NewEtcd returns a lease store, or an error if the configuration is invalid. It sends no request to etcd.
func NewEtcd(cfg EtcdConfig) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	keys, _ := state.NewKeys(cfg.withDefaults().Prefix) // Validate found no error
	return &Etcd{client: cfg.Client, key: keys.LeaseRecord(cfg.Name)}, nil
}

// etcdRecord is the stored form of a lease.
type etcdRecord struct {
	HolderIdentity    string        `json:"holderIdentity"`
	HolderInstance    string        `json:"holderInstance"`
	LeaseDuration     time.Duration `json:"leaseDurationNanoseconds"`
	AcquireTime       time.Time     `json:"acquireTime"`
	RenewTime         time.Time     `json:"renewTime"`
	LeaderTransitions int64         `json:"leaderTransitions"`
}

// ErrFormat is matched by the error of a store whose record this release does not read, because a newer release of
// Goverse wrote it. The text names both formats. The record is left as it is, and the candidate never leads.
var ErrFormat = format.ErrFormat

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
	rest, err := format.Decode(e.key, resp.Kvs[0].Value, &r)
	switch {
	case errors.Is(err, ErrFormat):
		return Lease{}, err
	case err != nil:
		return Lease{}, fmt.Errorf("%s holds no lease record; delete it if nothing else uses it: %w", e.key, err)
	}
	e.rests.Keep(e.key, resp.Kvs[0].ModRevision, rest)
	return leaseOf(r, resp.Kvs[0].ModRevision), nil
}

// CreateLease implements [LeaseStore].
func (e *Etcd) CreateLease(ctx context.Context, lease Lease) (Lease, error) {
	return e.writeLease(ctx, 0, lease, ErrExists)
}

// UpdateLease implements [LeaseStore].
func (e *Etcd) UpdateLease(ctx context.Context, lease Lease) (Lease, error) {
	modified, err := strconv.ParseInt(lease.Version, 16, 64)
	if err != nil || modified <= 0 {
		return Lease{}, ErrConflict
	}
	return e.writeLease(ctx, modified, lease, ErrConflict)
}

// writeLease writes the record if its ModRevision is the given one; otherwise it returns other.
func (e *Etcd) writeLease(ctx context.Context, modified int64, l Lease, other error) (Lease, error) {
	r := etcdRecord{l.HolderIdentity, l.HolderInstance, l.LeaseDuration, l.AcquireTime, l.RenewTime, l.LeaderTransitions}
	rest := e.rests.Rest(e.key, modified)
	value, err := format.Encode(r, rest)
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
	e.rests.Keep(e.key, resp.Header.Revision, rest)
	return leaseOf(r, resp.Header.Revision), nil
}

func leaseOf(r etcdRecord, modified int64) Lease {
	return Lease{HolderIdentity: r.HolderIdentity, HolderInstance: r.HolderInstance, LeaseDuration: r.LeaseDuration,
		AcquireTime: r.AcquireTime, RenewTime: r.RenewTime, LeaderTransitions: r.LeaderTransitions,
		Version: strconv.FormatInt(modified, 16)}
}

// watchesOpened counts the watches that this process has opened.
var watchesOpened atomic.Int64

// Watch implements [LeaseWatcher].
func (e *Etcd) Watch(ctx context.Context, changed func()) error {
	// Each watch has a stream of its own. etcd authorizes watches with the token with which their stream was
	// opened. On an older stream that another watch keeps open, the token may have expired.
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(
		metadata.AppendToOutgoingContext(ctx, "goverse-elector", strconv.FormatInt(watchesOpened.Add(1), 10))))
	defer cancel()
	for resp := range e.client.Watch(watching, e.key, clientv3.WithCreatedNotify()) {
		if err := resp.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch %s: %w", e.key, err)
		}
		changed()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("watch %s: %w", e.key, errWatchEnded)
}

var errWatchEnded = errors.New("etcd's client ended the watch; is it closed?")
