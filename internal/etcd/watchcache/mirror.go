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

// Config is what a mirror needs. Client and Keys are required.
type Config struct {
	// Client reaches etcd. The mirror never closes it.
	Client *clientv3.Client
	// Keys is the range to mirror.
	Keys state.Keys
	// ReadTimeout bounds one read of the range. Default 5 s.
	ReadTimeout time.Duration
	// LagTimeout is how long the watch may take to reach a revision that is
	// known to exist (see Saw) before the mirror compares its snapshot with etcd, and
	// the longest pause before it reads anew. Default 3 s; a third of the session's
	// TTL is a good value.
	LagTimeout time.Duration
	// Member is the address of the member whose view this is: with it, other members whose leases
	// etcd may have ended too early are kept in view for a while; see package lingering. Default: what
	// is gone from etcd is gone from the view.
	Member string
	// Random draws the numbers in [0, 1) by which retries get out of step, for a simulation that is to
	// come out the same again. It must be safe for concurrent use. Default: math/rand's.
	Random func() float64
	// Logger gets one line when the watch is lost and one when it is back.
	// Default: none.
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
	way      watchprogress.Way // Run's alone
	lingers  lingering.Part    // the same
	term     atomic.Uint64     // of raft at etcd, the newest that is known
	fresh    atomic.Pointer[freshness]
	proxied  atomic.Bool // that was said
	foreign  int         // keys that were reported; Run's alone
	age      age

	mu      sync.Mutex
	subs    []*Subscription
	waiters []*waiter
}

// New makes a mirror; [Mirror.Run] makes it live.
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

// Snapshot is the newest snapshot, nil before the first read succeeded. It
// never blocks.
func (m *Mirror) Snapshot() *state.Snapshot { return m.snapshot.Load() }

// Ready is closed once the first snapshot is published and its watch stands.
func (m *Mirror) Ready() <-chan struct{} { return m.ready }

// Trouble is why the last read failed, nil if it did not.
func (m *Mirror) Trouble() error {
	if err := m.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Rebuilds counts the reads after the first: how often the watch was lost.
func (m *Mirror) Rebuilds() int64 { return m.rebuilds.Load() }

// Known is the newest revision that this process knows to exist at etcd, from
// whatever source. A linearizable answer to a request sent after this call can
// only be older if etcd's history is another one.
func (m *Mirror) Known() int64 { return m.known.Load() }

// Saw tells the header of a linearizable answer of etcd, and what Known was
// before its request was sent. If neither an event nor a progress report reaches
// its revision within LagTimeout and a change is missing, or if it belongs to another
// history, the mirror reads anew. It does not block.
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

// Term is etcd's raft term, the newest that this process knows.
func (m *Mirror) Term() uint64 { return m.term.Load() }

// inTerm takes note of etcd's raft term.
func (m *Mirror) inTerm(term uint64) {
	for old := m.term.Load(); term > old && !m.term.CompareAndSwap(old, term); old = m.term.Load() {
	}
}

// learn reports whether revision was news.
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

// Rebuild makes the mirror read anew, for the reason given: somebody saw etcd
// contradict the snapshot. It does not block.
func (m *Mirror) Rebuild(reason string) {
	select {
	case m.rebuild <- reason:
	default:
	}
}

// Read reads the whole range once. A member of etcd that is cut off from the others
// refuses that, and the client asks another one.
func Read(ctx context.Context, client *clientv3.Client, keys state.Keys) (*state.Snapshot, error) {
	s, _, err := read(ctx, client, keys)
	return s, err
}

// read is Read, and etcd's raft term at that time.
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
