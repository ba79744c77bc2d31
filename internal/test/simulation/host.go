package simulation

import (
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// host is a place at which processes run, one after the other, at the same address:
// its clocks, its way to etcd, and what others meet who connect to it.
type host struct {
	w       *world
	address string
	roles   roles
	process *process // the one that runs, nil when none does
	born    int      // processes so far

	clocks    atomic.Pointer[clocks]
	paused    bool          // its process stands still
	suspended bool          // so does the machine
	stepped   bool          // the wall clock was
	setBack   bool          // backwards
	resumed   chan struct{} // closed when it goes on; nil while nothing stands still

	distance time.Duration // from etcd, one way
	member   int           // of etcd, which it asks
	roams    bool          // it asks one after the other
	turns    atomic.Int64
	way      atomic.Pointer[link]
	refuses  bool           // nobody can connect, the answer is a refusal
	silent   bool           // nobody can connect, there is no answer; nor can it connect to others
	apart    time.Duration  // the last instant at which it was hindered, and not by standing still; see hinder
	lagged   time.Duration  // or stood still
	refused  time.Duration  // the last instant at which it refused a connection; -1: it never did
	wentOn   time.Duration  // when it last did after it stood still; -1: it never did
	allowed  time.Duration  // since when etcd denies it nothing, if it ever did
	cut      map[*host]bool // whom it does not reach; the others reach it
}

// roles are what the processes of a host are like.
type roles struct {
	observer bool
	fallback bool
	drains   bool // when it stops it goes on serving for long
	shards   int  // it works with so many; 0: with none
	excluded bool // by its label: it gets no shards
	proxied  bool // its way to etcd goes through a proxy, whose watches report no progress
	asked    bool // its user does something when a shard comes
}

// link is one host's way to etcd, and what it meets there. It never changes.
type link struct {
	noRequests, noAnswers bool          // what is lost while so
	slow                  time.Duration // how much longer each way takes, at most
	held                  bool          // what is on its way waits: the network is cut, and nothing is lost
	frozen                bool          // watches deliver nothing
	denied                bool          // etcd's access control refuses its candidate's key
	busy                  time.Duration // how long goroutines of its host wait for their turn, at most
}

// well reports whether nothing is wrong with it; a denied candidacy holds nobody up.
func (l link) well() bool {
	l.denied = false
	return l == link{}
}

// asks is the member of etcd that the next request goes to.
func (h *host) asks() int {
	if h.roams {
		return int(h.turns.Add(1)) % h.w.members
	}
	return h.member
}

// link is its present way to etcd.
func (h *host) link() link { return *h.way.Load() }

// set changes its way to etcd. The lock is held.
func (h *host) set(change func(*link)) {
	l := h.link()
	change(&l)
	h.way.Store(&l)
	if p := h.process; p != nil {
		p.conn.Freeze(l.frozen)
		p.conn.Hold(l.held || h.standsStill())
	}
}

func newHost(w *world, address string) *host {
	h := &host{w: w, address: address, apart: -1, lagged: -1, refused: -1, wentOn: -1, cut: map[*host]bool{}}
	h.way.Store(&link{})
	h.clocks.Store(&clocks{rate: w.rand.Int64N(2*mostDrift+1) - mostDrift, frozen: -1, suspended: -1})
	return h
}

// mostDrift is by how many parts per million a clock runs fast or slow at most.
const mostDrift = 3000

// clocks are how a host's clocks come from the true time. They never change.
type clocks struct {
	rate      int64         // parts per million by which they run fast
	stood     time.Duration // how long the monotonic clock has stood still so far
	ahead     time.Duration // how much the wall clock was stepped
	frozen    time.Duration // since when the process stands still: it reads them no more; -1: it does not
	suspended time.Duration // since when the machine is, and the monotonic clock stands still; -1: it is not
}

// now is what both clocks show to the process. A process that stands still reads none; what goes on in it all the
// same, for that is how it is simulated, finds no time passed.
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

// slower is d on the slowest clock that there is, and a moment more.
func slower(d time.Duration) time.Duration {
	return d + d*mostDrift/1e6 + time.Millisecond
}

// pause stops the process.
func (h *host) pause() {
	h.w.alter(func() { h.paused = true })
	h.standStill()
}

// unpause lets it go on.
func (h *host) unpause() {
	h.w.alter(func() { h.paused = false })
	h.goOn()
}

// suspend stops the machine, and its monotonic clock.
func (h *host) suspend() {
	h.w.alter(func() { h.suspended = true })
	h.standStill()
	c := *h.clocks.Load()
	c.suspended = h.w.now()
	h.clocks.Store(&c)
}

// resume lets it go on.
func (h *host) resume() {
	h.w.alter(func() { h.suspended = false })
	c := *h.clocks.Load()
	c.stood += h.w.now() - c.suspended
	c.suspended = -1
	h.clocks.Store(&c)
	h.goOn()
}

func (h *host) standStill() {
	c := *h.clocks.Load()
	if c.frozen >= 0 {
		return
	}
	c.frozen = h.w.now()
	h.clocks.Store(&c)
	h.resumed = make(chan struct{})
	if h.process != nil {
		h.process.conn.Hold(true)
	}
}

func (h *host) goOn() {
	if h.standsStill() {
		return
	}
	h.wentOn = h.w.now()
	h.w.alter(func() { h.lagged = max(h.lagged, h.wentOn) })
	h.w.checks.look(h.w) // what it claims at this instant, before it knows anything new
	c := *h.clocks.Load()
	c.frozen = -1
	h.clocks.Store(&c)
	close(h.resumed)
	h.resumed = nil
	if h.process != nil {
		h.process.conn.Hold(h.link().held)
	}
}

// step steps the wall clock.
func (h *host) step(by time.Duration) {
	h.setBack, h.stepped = h.setBack || by < 0, true
	c := *h.clocks.Load()
	c.ahead += by
	h.clocks.Store(&c)
}

// standsStill reports whether the process or the machine does.
func (h *host) standsStill() bool { return h.paused || h.suspended }

// hinder notes that something keeps the host, now, from answering as fast as one that
// is well: its way to etcd is cut, for example. Who is not hindered must not be taken for dead.
func (h *host) hinder() { h.hinderUntil(h.w.now()) }

func (h *host) hinderUntil(t time.Duration) {
	h.w.alter(func() { h.apart, h.lagged = max(h.apart, t), max(h.lagged, t) })
}

// hindered reports whether it was at any time since, or stood still. The checks' lock is held.
func (h *host) hindered(since time.Duration) bool {
	return h.lagged >= since || h.standsStill() || h.cutOff(since)
}

// cutOff reports whether at any time since it could not hear of what happens at etcd at once, and not because it
// stood still. The checks' lock is held.
func (h *host) cutOff(since time.Duration) bool {
	if h.apart >= since || !h.link().well() || h.w.faults.away || h.w.faults.sick > 0 {
		return true
	}
	p := h.process
	if p == nil {
		return false
	}
	view := p.core.Mirror.Snapshot()
	return p.known.blind > 0 || p.known.waits >= since || view == nil || view.Stale
}
