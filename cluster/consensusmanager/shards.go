package consensusmanager

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/histogram"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/wait"
)

// Shards represents this node's part in the shards. All methods are safe for concurrent use.
type Shards struct {
	cfg   Config
	slots []shardSlot

	wake         wait.Signal
	wantedReport atomic.Pointer[sharding.Report] // report to be written
	reportWake   wait.Signal                     // receives when a report is wanted
	work         sync.WaitGroup                  // acquisitions and releases in progress
	acquireSlots chan struct{}                   // held while OnAcquire runs; nil: no limit

	residents Residents // may be nil

	waitCtx     context.Context // ends when all waiting must end
	stopWaiting context.CancelFunc

	aloneMutex   keyedMutex     // of HoldAlone
	announcedMap announcedMap   // used by reconcile alone
	own          sharding.Owner // used by reconcile alone: this member as registered now or last
	phases       [phaseReleasing + 1]atomic.Int64
	held         atomic.Int64         // number of shards that are not free
	pauses       *histogram.Durations // durations of moves to this node

	mu            sync.Mutex
	leaving       bool           // nothing is acquired any more
	leaveStarted  chan struct{}  // closed when leaving is set
	overdueShards []int          // shards with calls that take too long, to be logged
	waiting       int            // number of shards assigned to this node that another one has not released yet
	allFree       chan struct{}  // closed and replaced when no shard is held
	lostOwner     sharding.Owner // this member as registered in the last session that ended; zero: none has
	sessionEnded  chan struct{}  // closed and replaced when a session ends
}

// newShards returns a Shards that does nothing until run.
func newShards(cfg Config) *Shards {
	h := &Shards{cfg: cfg, slots: make([]shardSlot, cfg.Planning.Shards), wake: wait.NewSignal(),
		pauses: histogram.NewDurations(pauseBounds...), reportWake: wait.NewSignal(), allFree: make(chan struct{}),
		leaveStarted: make(chan struct{}), sessionEnded: make(chan struct{})}
	if cfg.MaxAcquiring > 0 {
		h.acquireSlots = make(chan struct{}, cfg.MaxAcquiring)
	}
	h.waitCtx, h.stopWaiting = context.WithCancel(context.Background())
	if cfg.Residents != nil {
		h.residents = cfg.Residents(h)
	}
	return h
}

// run acquires and releases shards by the map, on one session after the other, until ctx ends. It then releases
// all that is left and returns when that is done. It does not wait longer than wait.JoinLimit for functions that
// ignore the end of their context.
func (h *Shards) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { h.writeReports(ctx) })
	defer wg.Wait()
	var old *etcdsession.Session
	for {
		s, err := h.cfg.Keeper.Wait(ctx, old)
		if err != nil {
			break
		}
		h.runSession(ctx, s)
		old = s
	}
	h.relinquishShards()
	h.reconcile(nil)
	h.stopWaiting()
	if !wait.JoinFunc(h.work.Wait, wait.JoinLimit) {
		h.cfg.Logger.Warn("what runs in shards goes on after its context ended; not waiting for it any longer",
			"shards", h.Held())
	}
}

// runSession looks at every relevant change while the session lasts.
func (h *Shards) runSession(ctx context.Context, s *etcdsession.Session) {
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	defer s.OnChange(h.wake.Send)()
	for {
		h.reconcile(s)
		select {
		case <-sub.C:
		case <-h.wake:
		case <-s.Done():
			h.reconcile(nil)
			h.recordSessionLoss()
			return
		case <-ctx.Done():
			return
		}
	}
}

// recordSessionLoss records that this member's session has ended. A map that names it as registered in that session
// never makes it serve a shard again.
func (h *Shards) recordSessionLoss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lostOwner = h.own
	close(h.sessionEnded)
	h.sessionEnded = make(chan struct{})
}

// relinquishShards makes the node release all its shards. It acquires none after the call. The call does not
// block: see awaitIdle.
func (h *Shards) relinquishShards() {
	h.mu.Lock()
	if !h.leaving {
		h.leaving = true
		close(h.leaveStarted)
	}
	h.mu.Unlock()
	h.wake.Send()
}

// reconcile compares the shards held with those that should be held, which are none without a session.
func (h *Shards) reconcile(s *etcdsession.Session) {
	snap := h.cfg.Mirror.Snapshot()
	if snap == nil {
		return // nothing is held either
	}
	h.mu.Lock()
	leaving := h.leaving
	h.mu.Unlock()
	var period *etcdsession.Period
	in := ownership.Input{Shards: h.Count(), Map: snap.Map(), Done: snap.MoveDone, Withheld: snap.ShardWithheld,
		Held: func(shard int) int64 { return h.slots[shard].heldEpoch(period) }}
	var lease int64
	if s != nil {
		period, lease = s.Period(), int64(s.ID())
		in.Valid, in.Suspected = period.ValidDespitePause() && !leaving, s.Suspected()
		if m := snap.Member(h.cfg.Address); m != nil && m.KeyLease == lease {
			in.Own = sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}
			h.own = in.Own
		}
	}
	if r := snap.ReportOf(h.cfg.Address); r != nil {
		in.Reported = r.Report
	}
	h.announceMoves(in.Map, in.Own)
	orders := ownership.Decide(in)
	for _, shard := range orders.Release {
		h.releaseShard(shard)
	}
	for _, g := range orders.Acquire {
		h.acquireShard(g, period)
	}
	h.mu.Lock()
	h.waiting = orders.Waiting
	h.mu.Unlock()
	report := ownership.NextReport(in)
	h.wantedReport.Store(report)
	if report != nil {
		h.reportWake.Send()
	}
}
