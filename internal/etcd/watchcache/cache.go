package watchcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/lingering"
	"github.com/goverse/goverse/internal/etcd/watchprogress"
	"github.com/goverse/goverse/internal/state"
)

// Config configures a Mirror. Client and Keys are required.
type Config struct {
	// Client reaches etcd. The mirror never closes it.
	Client *clientv3.Client
	// Keys is the range to mirror.
	Keys state.Keys
	// ReadTimeout limits one read of the range. Default 5 s.
	ReadTimeout time.Duration
	// LagTimeout limits the time that the watch may take to reach a revision that is known to exist (see Saw).
	// Then the mirror compares its snapshot with etcd. It is also the longest pause before the range is read
	// anew. Default 3 s; a third of the session's TTL is a good value.
	LagTimeout time.Duration
	// Member is the address of the member that uses this mirror. If it is set, other members stay in view for a
	// while after etcd may have revoked their leases early; see package lingering. Default "": members that are
	// gone from etcd are gone from the view.
	Member string
	// Random returns a number in [0, 1), used to spread retries. Simulations set it to be reproducible. It must
	// be safe for concurrent use. Default: math/rand's.
	Random func() float64
	// Logger receives one line when the watch is lost and one when it is restored. Default: none.
	Logger hclog.Logger
}

// Mirror is the running copy. All methods are safe for concurrent use.
type Mirror struct {
	cfg      Config
	log      hclog.Logger
	stream   string
	snapshot atomic.Pointer[state.Snapshot]
	ready    chan struct{}
	known    atomic.Int64
	poke     chan struct{}
	rebuild  chan string
	rebuilds atomic.Int64
	trouble  atomic.Pointer[error]
	way      watchprogress.ProxyState // used by Run alone
	lingers  lingering.Part           // used by Run alone
	term     atomic.Uint64            // etcd's newest known raft term
	fresh    atomic.Pointer[freshness]
	proxied  atomic.Bool // the proxy was reported in the log
	foreign  int         // number of foreign keys reported; used by Run alone
	age      age

	mu      sync.Mutex
	subs    []*Subscription
	waiters []*waiter
}

// New returns a mirror, which [Mirror.Run] fills and keeps current.
func New(cfg Config) *Mirror {
	if cfg.ReadTimeout <= 0 {
		cfg.ReadTimeout = 5 * time.Second
	}
	if cfg.LagTimeout <= 0 {
		cfg.LagTimeout = 3 * time.Second
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	m := &Mirror{
		cfg:     cfg,
		log:     cfg.Logger,
		ready:   make(chan struct{}),
		poke:    make(chan struct{}, 1),
		rebuild: make(chan string, 1),
		lingers: lingering.New(cfg.Member),
	}
	m.stream = fmt.Sprintf("%p", m)
	return m
}

// Snapshot returns the newest snapshot, nil before the first read has succeeded. It never blocks.
func (m *Mirror) Snapshot() *state.Snapshot { return m.snapshot.Load() }

// Ready returns a channel that is closed once the first snapshot is published and its watch is open.
func (m *Mirror) Ready() <-chan struct{} { return m.ready }

// Trouble returns the error of the last read, nil if it succeeded.
func (m *Mirror) Trouble() error {
	if err := m.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Rebuilds returns the number of reads after the first, each of which follows the loss of a watch.
func (m *Mirror) Rebuilds() int64 { return m.rebuilds.Load() }

// Known returns the newest revision that any part of this process knows to exist in etcd. A linearizable answer
// to a request sent after this call is older only if etcd has another history.
func (m *Mirror) Known() int64 { return m.known.Load() }

// Saw reports the header of a linearizable answer of etcd, with the value of Known from before its request was
// sent. The mirror reads the range anew if the answer belongs to another history. It also does so if neither an
// event nor a progress report reaches the answer's revision within LagTimeout and a change is missing. Saw does
// not block.
func (m *Mirror) Saw(header *etcdserverpb.ResponseHeader, known int64) {
	s := m.Snapshot()
	if s != nil && (header.ClusterId != s.ClusterID || header.Revision < known) {
		m.Rebuild("etcd's history is another one")
		return
	}
	m.inTerm(header.RaftTerm)
	m.age.saw(header.Revision, time.Now())
	if m.learn(header.Revision) {
		select {
		case m.poke <- struct{}{}:
		default:
		}
	}
}

// Term returns etcd's newest raft term that this process knows.
func (m *Mirror) Term() uint64 { return m.term.Load() }

// inTerm records etcd's raft term.
func (m *Mirror) inTerm(term uint64) {
	for old := m.term.Load(); term > old && !m.term.CompareAndSwap(old, term); old = m.term.Load() {
	}
}

// learn records a revision and reports whether it was newer than all known before.
func (m *Mirror) learn(revision int64) bool {
	for {
		old := m.known.Load()
		if revision <= old {
			return false
		}
		if m.known.CompareAndSwap(old, revision) {
			return true
		}
	}
}

// Rebuild makes the mirror read the range anew, because etcd has contradicted the snapshot; reason goes into
// the log. It does not block.
func (m *Mirror) Rebuild(reason string) {
	select {
	case m.rebuild <- reason:
	default:
	}
}

// Read reads the whole range once. A member of etcd that is cut off from the others refuses the read, and the
// client asks another one.
func Read(ctx context.Context, client *clientv3.Client, keys state.Keys) (*state.Snapshot, error) {
	s, _, err := read(ctx, client, keys)
	return s, err
}

// read does the same as Read and also returns etcd's raft term.
func read(ctx context.Context, client *clientv3.Client, keys state.Keys) (_ *state.Snapshot, term uint64, _ error) {
	resp, err := client.Get(clientv3.WithRequireLeader(ctx), keys.RangeStart(), clientv3.WithRange(keys.RangeEnd()))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", keys.Prefix(), err)
	}
	kvs := make([]state.KV, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		kvs[i] = toKV(kv)
	}
	return state.Build(keys, resp.Header.ClusterId, resp.Header.Revision, kvs), resp.Header.GetRaftTerm(), nil
}

var errRebuild = errors.New("rebuild")
