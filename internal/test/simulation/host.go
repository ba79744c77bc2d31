package simulation

import (
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/schedule"
)

// host is the place where processes run, one after the other, at the same address. It has the clocks, the
// connection to etcd, and the address's behaviour towards others.
type host struct {
	w          *world
	address    string
	roles      roles
	process    *process // nil when none runs
	startCount int      // number of processes so far

	clocks    atomic.Pointer[clocks]
	paused    bool          // its process stands still
	suspended bool          // its machine stands still
	stepped   bool          // the wall clock was stepped
	setBack   bool          // the wall clock was stepped back
	resumed   chan struct{} // closed when it continues; nil while nothing stands still

	link           *schedule.Link // to etcd
	refuses        bool           // its address refuses connections
	silent         bool           // its address gives no answer, and it reaches no other host
	apart          time.Duration  // the last instant at which it was hindered other than by standing still
	lagged         time.Duration  // the last instant at which it was hindered or stood still
	refused        time.Duration  // the last instant at which it refused a connection; -1 if never
	reachable      time.Duration  // the last instant at which others could reach it again; -1 if never
	resumedAt      time.Duration  // when it last continued after standing still; -1 if never
	stood          standstills
	greatestBefore int64          // greatest token of a term before the present standstill
	allowed        time.Duration  // when etcd last ended a denial of its candidacy
	cut            map[*host]bool // hosts that it does not reach, although they reach it
}

// roles configures the processes of a host.
type roles struct {
	observer bool
	fallback bool
	drains   bool // its calls go on for long when it stops
	shards   int  // the number of shards it is configured with; 0 for none
	excluded bool // its label excludes it from getting shards
	proxied  bool // it reaches etcd through a proxy; its watches report no progress
	asked    bool // its user has an OnAcquire function
	// electionOnly makes them candidates and nothing else, as package leaderelection does. They have no server.
	electionOnly bool
	// old processes are of a version that knows nothing of accusations of silence.
	old bool
}

func newHost(w *world, address string) *host {
	h := &host{w: w, address: address, link: w.NewLink(address), apart: -1, lagged: -1, refused: -1, reachable: -1,
		resumedAt: -1, cut: map[*host]bool{}}
	h.link.Denies = w.concernsCandidate
	h.clocks.Store(&clocks{rate: w.drawRate(), frozen: -1, suspended: -1})
	return h
}

// drawRate draws the rate of a host's clocks. Very fast and very slow clocks are frequent where there are any.
func (w *world) drawRate() int64 {
	most := int64(w.drift)
	rate := w.Rand.Int64N(2*most+1) - most
	if most == largestDrift && w.OneIn(2) {
		rate = schedule.Pick(w.Rand, -most, most)
	}
	return rate
}

// clocks relates a host's clocks to the true time. It is immutable.
type clocks struct {
	rate      int64         // parts per million by which they run fast
	stood     time.Duration // total time that the monotonic clock has stood still
	ahead     time.Duration // total step of the wall clock
	frozen    time.Duration // since when the process stands still and reads no clock; -1 if it does not
	suspended time.Duration // since when the machine and its monotonic clock stand still; -1 if they do not
}

// now returns the readings of both clocks. A stopped process reads no clock. In the simulation its goroutines
// may still run; for them no time has passed.
func (h *host) now() deadline.Instant {
	c, ran := h.clocks.Load(), h.w.Now()
	if c.frozen >= 0 && !h.w.judging.Load() {
		ran = c.frozen
	}
	mono := ran - c.stood
	if c.suspended >= 0 {
		mono = min(ran, c.suspended) - c.stood
	}
	return deadline.Instant{Mono: int64(mono) + int64(mono)*c.rate/1e6 + 1,
		Wall: h.w.Began.UnixNano() + int64(ran) + int64(ran)*c.rate/1e6 + int64(c.ahead)}
}

// pauseProcess stops the process.
func (h *host) pauseProcess() {
	h.w.alter(func() { h.paused = true })
	h.beginStandstill()
}

// resumeProcess lets the process continue.
func (h *host) resumeProcess() {
	h.w.alter(func() { h.paused = false })
	h.endStandstill()
}

// suspendMachine stops the machine and its monotonic clock.
func (h *host) suspendMachine() {
	h.w.alter(func() { h.suspended = true })
	h.beginStandstill()
	c := *h.clocks.Load()
	c.suspended = h.w.Now()
	h.clocks.Store(&c)
}

// resumeMachine lets the machine continue.
func (h *host) resumeMachine() {
	h.w.alter(func() { h.suspended = false })
	c := *h.clocks.Load()
	c.stood += h.w.Now() - c.suspended
	c.suspended = -1
	h.clocks.Store(&c)
	h.endStandstill()
}

func (h *host) beginStandstill() {
	c := *h.clocks.Load()
	if c.frozen >= 0 {
		return
	}
	c.frozen = h.w.Now()
	h.w.alter(func() {
		h.stood.times, h.stood.since, h.stood.now = h.stood.times+1, c.frozen, true
		h.greatestBefore, _ = h.w.checks.terms.Greatest(false)
	})
	h.clocks.Store(&c)
	h.resumed = make(chan struct{})
	h.link.Change(func(s *schedule.LinkState) { s.Stopped = true })
}

func (h *host) endStandstill() {
	if h.standsStill() {
		return
	}
	h.resumedAt = h.w.Now()
	h.w.alter(func() {
		h.lagged = max(h.lagged, h.resumedAt)
		h.stood = standstills{total: h.standstills().total, times: h.stood.times}
	})
	h.w.checks.checkClaims(h.w) // check its claims at this instant, before it learns anything new
	c := *h.clocks.Load()
	c.frozen = -1
	h.clocks.Store(&c)
	close(h.resumed)
	h.resumed = nil
	h.w.resendMessages()
	h.link.Change(func(s *schedule.LinkState) { s.Stopped = false })
}

// stepClock steps the wall clock.
func (h *host) stepClock(by time.Duration) {
	h.setBack, h.stepped = h.setBack || by < 0, true
	c := *h.clocks.Load()
	c.ahead += by
	h.clocks.Store(&c)
}

// standsStill reports whether the process or the machine stands still.
func (h *host) standsStill() bool { return h.paused || h.suspended }

// markHindered records that a fault, such as a cut connection to etcd, keeps the host of a link, or with nil each
// host, from answering as fast as a healthy one until a time. A host that is not hindered must not be considered
// dead.
func (w *world) markHindered(l *schedule.Link, until time.Duration) {
	w.alter(func() {
		for _, h := range w.hosts {
			if l == nil || l == h.link {
				h.apart, h.lagged = max(h.apart, until), max(h.lagged, until)
			}
		}
	})
}

// wasHindered reports whether the host was hindered or stood still at any time since then. The caller holds the
// checks' mu.
func (h *host) wasHindered(since time.Duration) bool {
	return h.lagged >= since || h.standsStill() || h.wasCutOff(since)
}

// wasCutOff reports whether at any time since then, for another reason than standing still, the host could not
// learn of etcd's events immediately. The caller holds the checks' mu.
func (h *host) wasCutOff(since time.Duration) bool {
	if h.apart >= since || !h.link.State().IsHealthy() || !h.w.EtcdWell() {
		return true
	}
	p := h.process
	if p == nil {
		return false
	}
	view := p.registered.Mirror.Snapshot()
	return p.facts.blind > 0 || p.facts.waits >= since || view == nil || view.Stale
}
