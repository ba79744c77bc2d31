package watchcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/lingering"
	"github.com/goverse/goverse/internal/etcd/watchprogress"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Config configures a Mirror. It mirrors the range of Keys.
type Config struct {
	// If Address is set, it is that of a member. Other members then stay in view for a while after etcd may have
	// revoked their leases early; see package lingering. Otherwise members that are gone from etcd are gone from
	// the view. RequestTimeout limits one read of the range. Default 5 s.
	etcd.Process
	// InstanceID is that of this process's record.
	InstanceID string
	// LagTimeout limits the time that the watch may take to reach a revision that is known to exist (see ObserveHeader).
	// Then the mirror compares its snapshot with etcd. It is also the longest pause before the range is read
	// anew. Default 3 s; a third of the session's TTL is a good value.
	LagTimeout time.Duration
}

func (c Config) self() lingering.Self {
	return lingering.Self{Address: c.Address, InstanceID: c.InstanceID}
}

// Mirror is the running copy. All methods are safe for concurrent use.
type Mirror struct {
	cfg             Config
	log             hclog.Logger
	streamID        string
	snapshot        atomic.Pointer[state.Snapshot]
	ready           chan struct{}
	knownRevision   atomic.Int64
	wake            wait.Signal
	rebuild         chan error
	rebuilds        atomic.Int64
	readErr         atomic.Pointer[error]
	proxyState      watchprogress.ProxyState // used by Run alone
	lingering       lingering.Members        // used by Run alone
	knownTerm       atomic.Uint64            // etcd's newest known raft term
	fresh           atomic.Pointer[freshness]
	proxied         atomic.Bool // the proxy was reported in the log
	foreignReported int         // number of foreign keys reported; used by Run alone
	originalFound   bool        // the original goverse was reported; used by Run alone
	age             snapshotAge
	lastRead        atomic.Pointer[readTimes] // nil before the first

	mu      sync.Mutex
	subs    []*Subscription
	waiters []*waiter
}

// New returns a mirror, which [Mirror.Run] fills and keeps current.
func New(cfg Config) *Mirror {
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, 5*time.Second)
	cfg.LagTimeout = cmp.Or(cfg.LagTimeout, 3*time.Second)
	cfg.Process = cfg.WithDefaults()
	m := &Mirror{
		cfg:       cfg,
		log:       cfg.Logger,
		ready:     make(chan struct{}),
		wake:      wait.NewSignal(),
		rebuild:   make(chan error, 1),
		lingering: lingering.New(cfg.self()),
	}
	m.streamID = fmt.Sprintf("%p", m)
	return m
}

// Snapshot returns the newest snapshot, nil before the first read has succeeded. It never blocks.
func (m *Mirror) Snapshot() *state.Snapshot { return m.snapshot.Load() }

// Ready returns a channel that is closed once the first snapshot is published and its watch is open.
func (m *Mirror) Ready() <-chan struct{} { return m.ready }

// ReadError returns the error of the last read, nil if it succeeded.
func (m *Mirror) ReadError() error {
	if err := m.readErr.Load(); err != nil {
		return *err
	}
	return nil
}

// RebuildCount returns the number of reads after the first, each of which follows the loss of a watch.
func (m *Mirror) RebuildCount() int64 { return m.rebuilds.Load() }

// KnownRevision returns the newest revision that any part of this process knows to exist in etcd. A linearizable answer
// to a request sent after this call is older only if etcd has another history.
func (m *Mirror) KnownRevision() int64 { return m.knownRevision.Load() }

// ObserveHeader reports the header of a linearizable answer of etcd, and KnownRevision as it was before its request
// was sent. The mirror reads the range anew if the answer belongs to another history. It also does so if neither an
// event nor a progress report reaches the answer's revision within LagTimeout and a change is missing. It does
// not block.
func (m *Mirror) ObserveHeader(header *etcdserverpb.ResponseHeader, known int64) {
	s := m.Snapshot()
	if s != nil && (header.ClusterId != s.ClusterID || header.Revision < known) {
		m.Rebuild("etcd's history is another one")
		return
	}
	m.recordTerm(header.RaftTerm)
	m.age.recordAnswer(header.Revision, time.Now())
	if m.recordRevision(header.Revision) {
		m.wake.Send()
	}
}

// KnownTerm returns etcd's newest raft term that this process knows.
func (m *Mirror) KnownTerm() uint64 { return m.knownTerm.Load() }

// recordTerm records etcd's raft term.
func (m *Mirror) recordTerm(term uint64) {
	for old := m.knownTerm.Load(); term > old && !m.knownTerm.CompareAndSwap(old, term); old = m.knownTerm.Load() {
	}
}

// recordRevision records a revision and reports whether it was newer than all known before.
func (m *Mirror) recordRevision(revision int64) bool {
	for {
		old := m.knownRevision.Load()
		if revision <= old {
			return false
		}
		if m.knownRevision.CompareAndSwap(old, revision) {
			return true
		}
	}
}

// Rebuild makes the mirror read the range anew, because etcd has contradicted the snapshot; reason goes into
// the log. It does not block.
func (m *Mirror) Rebuild(reason string) { m.requestRebuild(fmt.Errorf("%w: %s", errRebuild, reason)) }

func (m *Mirror) requestRebuild(why error) {
	select {
	case m.rebuild <- why:
	default:
	}
}

// ReadSnapshot reads the whole range once. A member of etcd that is cut off from the others refuses the read, and the
// client asks another one.
func ReadSnapshot(ctx context.Context, client *clientv3.Client, keys state.Keys) (*state.Snapshot, error) {
	resp, err := getRange(clientv3.WithRequireLeader(ctx), client, keys)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", keys.Prefix(), err)
	}
	return snapshotOf(keys, resp), nil
}

// getRange reads the range of the keys.
func getRange(ctx context.Context, client *clientv3.Client, keys state.Keys,
	opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return client.Get(ctx, keys.RangeStart(), append(opts[:len(opts):len(opts)], clientv3.WithRange(keys.RangeEnd()))...)
}

// snapshotOf returns the snapshot that the answer to a read of the whole range shows.
func snapshotOf(keys state.Keys, resp *clientv3.GetResponse) *state.Snapshot {
	kvs := make([]state.KV, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		kvs[i] = toKV(kv)
	}
	return state.BuildSnapshot(keys, resp.Header.ClusterId, resp.Header.Revision, kvs)
}

var errRebuild = errors.New("rebuild")
