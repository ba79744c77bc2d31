package simulation

import (
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
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

	distance  time.Duration // from etcd, one way
	member    int           // the member of etcd that it uses
	roams     bool          // it uses the members of etcd in turn
	turns     atomic.Int64
	linkState atomic.Pointer[link]
	refuses   bool           // its address refuses connections
	silent    bool           // its address gives no answer, and it reaches no other host
	apart     time.Duration  // the last instant at which it was hindered other than by standing still; see hinder
	lagged    time.Duration  // the last instant at which it was hindered or stood still
	refused   time.Duration  // the last instant at which it refused a connection; -1 if never
	resumedAt time.Duration  // when it last continued after standing still; -1 if never
	allowed   time.Duration  // when etcd last ended a denial of its candidacy
	cut       map[*host]bool // hosts that it does not reach, although they reach it
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
}

// link is the state of one host's connection to etcd. It is immutable.
type link struct {
	noRequests, noAnswers bool          // requests or answers are lost
	slow                  time.Duration // extra delay of each way, at most
	held                  bool          // messages wait: the network is cut, and nothing is lost
	frozen                bool          // watches deliver nothing
	denied                bool          // etcd's access control refuses its candidate's key
	busy                  time.Duration // scheduling delay of the host's goroutines, at most
}

// isHealthy reports whether the link has no fault. A denied candidacy does not count, because it delays nothing.
func (l link) isHealthy() bool {
	l.denied = false
	return l == link{}
}

// nextMember returns the member of etcd that the next request goes to.
func (h *host) nextMember() int {
	if h.roams {
		return int(h.turns.Add(1)) % h.w.members
	}
	return h.member
}

// link returns the present state of its connection to etcd.
func (h *host) link() link { return *h.linkState.Load() }

// changeLink changes its connection to etcd. The caller holds w.mu.
func (h *host) changeLink(change func(*link)) {
	l := h.link()
	change(&l)
	h.linkState.Store(&l)
	if p := h.process; p != nil {
		p.conn.SetFrozen(l.frozen)
		p.conn.SetHeld(l.held || h.standsStill())
	}
}

func newHost(w *world, address string) *host {
	h := &host{w: w, address: address, apart: -1, lagged: -1, refused: -1, resumedAt: -1, cut: map[*host]bool{}}
	h.linkState.Store(&link{})
	h.clocks.Store(&clocks{rate: w.rand.Int64N(2*maxDrift+1) - maxDrift, frozen: -1, suspended: -1})
	return h
}

// maxDrift is the largest drift of a clock in parts per million.
const maxDrift = 3000

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
	c, ran := h.clocks.Load(), h.w.now()
	if c.frozen >= 0 && !h.w.judging.Load() {
		ran = c.frozen
	}
	mono := ran - c.stood
	if c.suspended >= 0 {
		mono = min(ran, c.suspended) - c.stood
	}
	return deadline.Instant{Mono: int64(mono) + int64(mono)*c.rate/1e6 + 1,
		Wall: h.w.began.UnixNano() + int64(ran) + int64(ran)*c.rate/1e6 + int64(c.ahead)}
}

// longestTrueTime returns the longest true time that a clock can take to show d, plus a millisecond.
func longestTrueTime(d time.Duration) time.Duration {
	return d + d*maxDrift/1e6 + time.Millisecond
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
	c.suspended = h.w.now()
	h.clocks.Store(&c)
}

// resumeMachine lets the machine continue.
func (h *host) resumeMachine() {
	h.w.alter(func() { h.suspended = false })
	c := *h.clocks.Load()
	c.stood += h.w.now() - c.suspended
	c.suspended = -1
	h.clocks.Store(&c)
	h.endStandstill()
}

func (h *host) beginStandstill() {
	c := *h.clocks.Load()
	if c.frozen >= 0 {
		return
	}
	c.frozen = h.w.now()
	h.clocks.Store(&c)
	h.resumed = make(chan struct{})
	if h.process != nil {
		h.process.conn.SetHeld(true)
	}
}

func (h *host) endStandstill() {
	if h.standsStill() {
		return
	}
	h.resumedAt = h.w.now()
	h.w.alter(func() { h.lagged = max(h.lagged, h.resumedAt) })
	h.w.checks.checkClaims(h.w) // check its claims at this instant, before it learns anything new
	c := *h.clocks.Load()
	c.frozen = -1
	h.clocks.Store(&c)
	close(h.resumed)
	h.resumed = nil
	if h.process != nil {
		h.process.conn.SetHeld(h.link().held)
	}
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

// markHindered records that a fault, such as a cut connection to etcd, now keeps the host from answering as fast as a
// healthy one. A host that is not hindered must not be considered dead.
func (h *host) markHindered() { h.markHinderedUntil(h.w.now()) }

func (h *host) markHinderedUntil(t time.Duration) {
	h.w.alter(func() { h.apart, h.lagged = max(h.apart, t), max(h.lagged, t) })
}

// wasHindered reports whether the host was hindered or stood still at any time since then. The caller holds the
// checks' mu.
func (h *host) wasHindered(since time.Duration) bool {
	return h.lagged >= since || h.standsStill() || h.wasCutOff(since)
}

// wasCutOff reports whether at any time since then, for another reason than standing still, the host could not
// learn of etcd's events immediately. The caller holds the checks' mu.
func (h *host) wasCutOff(since time.Duration) bool {
	if h.apart >= since || !h.link().isHealthy() || h.w.faults.away || h.w.faults.sick > 0 {
		return true
	}
	p := h.process
	if p == nil {
		return false
	}
	view := p.member.Mirror.Snapshot()
	return p.facts.blind > 0 || p.facts.waits >= since || view == nil || view.Stale
}
