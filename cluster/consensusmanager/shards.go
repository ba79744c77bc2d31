package consensusmanager

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// leftBehind is how long what runs in shards has to end when all else has.
const leftBehind = time.Second

// ShardsConfig is what a node's part in the shards needs. OnAcquire, OnRelease, Random and Logger
// may be nil.
type ShardsConfig struct {
	Client       *clientv3.Client
	Keys         state.Keys
	Mirror       *watchcache.Mirror
	Keeper       *etcdsession.Keeper
	Address      string
	Shards       int
	DrainTimeout time.Duration
	Timeout      time.Duration // of one request to etcd
	OnAcquire    func(ctx context.Context, shard int, epoch int64)
	MaxAcquiring int // calls of OnAcquire at a time; 0: any number
	OnRelease    func(ctx context.Context, shard int)
	Random       func() float64 // by which retries get out of step; nil: math/rand's
	Logger       hclog.Logger
}

// Shards is this node's part in the shards. All methods are safe for concurrent use.
type Shards struct {
	cfg   ShardsConfig
	slots []slot

	wake     chan struct{}
	wanted   atomic.Pointer[sharding.Report] // to be written
	reported chan struct{}                   // a report is wanted
	work     sync.WaitGroup                  // shards on their way
	turn     chan struct{}                   // held while OnAcquire runs; nil: any number may

	residents Residents // nil: none

	patience context.Context // ends when nothing is waited for any longer
	hurry    context.CancelFunc

	turns     turns          // of HoldAlone
	announced announced      // read and written by who looks
	own       sharding.Owner // likewise: this member as it is registered, or was the last time
	phases    [releasing + 1]atomic.Int64
	held      atomic.Int64 // shards that are not free
	pauses    pauses

	mu      sync.Mutex
	leaving bool           // nothing is acquired any more
	left    chan struct{}  // closed when leaving is set
	late    []int          // shards whose calls take too long, to be said
	waiting int            // shards that are this node's and still somebody else's to release
	none    chan struct{}  // closed when no shard is held the next time
	lost    sharding.Owner // this member as it was registered in the last session that is over; zero: none is
	over    chan struct{}  // closed when a session is over the next time
}

// newShards makes the part; run makes it live.
func newShards(cfg ShardsConfig) *Shards {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	h := &Shards{cfg: cfg, slots: make([]slot, cfg.Shards), wake: make(chan struct{}, 1),
		reported: make(chan struct{}, 1), none: make(chan struct{}), left: make(chan struct{}), over: make(chan struct{})}
	if cfg.MaxAcquiring > 0 {
		h.turn = make(chan struct{}, cfg.MaxAcquiring)
	}
	h.patience, h.hurry = context.WithCancel(context.Background())
	return h
}

// run acquires and releases shards as the map says, on one session after the other,
// until ctx ends; it then releases all that is left and returns when that is done. What
// goes on for long after its context ended is left behind.
func (h *Shards) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { h.report(ctx) })
	defer wg.Wait()
	var old *etcdsession.Session
	for {
		s, err := h.cfg.Keeper.Wait(ctx, old)
		if err != nil {
			break
		}
		h.serve(ctx, s)
		old = s
	}
	h.leave()
	h.look(nil)
	h.hurry()
	ended := make(chan struct{})
	go func() {
		h.work.Wait()
		close(ended)
	}()
	last := time.NewTimer(leftBehind)
	defer last.Stop()
	select {
	case <-ended:
	case <-last.C:
		h.cfg.Logger.Warn("what runs in shards goes on after its context ended; not waiting for it any longer",
			"shards", h.Held())
	}
}

// serve looks at every change that matters while a session lasts.
func (h *Shards) serve(ctx context.Context, s *etcdsession.Session) {
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	defer s.OnChange(h.poke)()
	for {
		h.look(s)
		select {
		case <-sub.C:
		case <-h.wake:
		case <-s.Done():
			h.look(nil)
			h.lose()
			return
		case <-ctx.Done():
			return
		}
	}
}

// lose takes note that this member's session is over: no map that names it as it was registered will have it serve
// again.
func (h *Shards) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = h.own
	close(h.over)
	h.over = make(chan struct{})
}

// leave makes the node release all that it holds; nothing is acquired after it returned.
// It does not block: see idle.
func (h *Shards) leave() {
	h.mu.Lock()
	if !h.leaving {
		h.leaving = true
		close(h.left)
	}
	h.mu.Unlock()
	h.poke()
}

func (h *Shards) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// look compares what is held with what should be; without a session that is nothing.
func (h *Shards) look(s *etcdsession.Session) {
	snap := h.cfg.Mirror.Snapshot()
	if snap == nil {
		return // and nothing is held
	}
	h.mu.Lock()
	leaving := h.leaving
	h.mu.Unlock()
	var period *etcdsession.Period
	in := ownership.Seen{Shards: h.cfg.Shards, Map: snap.Map(), Done: snap.MoveDone, Withheld: snap.Withheld,
		Held: func(shard int) int64 { return h.slots[shard].held(period) }}
	var lease int64
	if s != nil {
		period, lease = s.Period(), int64(s.ID())
		in.Valid, in.Suspected = period.Stands() && !leaving, s.Suspected()
		if m := snap.Member(h.cfg.Address); m != nil && m.KeyLease == lease {
			in.Own = sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}
			h.own = in.Own
		}
	}
	if r := snap.ReleasedBy(h.cfg.Address); r != nil {
		in.Reported = r.Report
	}
	h.announce(in.Map, in.Own)
	orders := ownership.Look(in)
	for _, shard := range orders.Release {
		h.release(shard)
	}
	for _, g := range orders.Acquire {
		h.acquire(g, period)
	}
	h.mu.Lock()
	h.waiting = orders.Waiting
	h.mu.Unlock()
	report := ownership.Report(in)
	h.wanted.Store(report)
	if report != nil {
		select {
		case h.reported <- struct{}{}:
		default:
		}
	}
}
