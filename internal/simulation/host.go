package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/deadline"
)

// host is a place at which processes run, one after the other, at the same address:
// its clocks, its way to etcd, and what others meet who connect to it.
type host struct {
	w       *world
	address string
	roles   roles
	process *process // the one that runs, nil when none does
	born    int      // processes so far

	rate      int64         // parts per million by which its clocks run fast
	stood     time.Duration // how long the monotonic clock has stood still so far
	suspended time.Duration // since when the machine is suspended; -1: it is not
	wallAhead time.Duration // how much the wall clock was stepped
	stepped   bool          // it was
	setBack   bool          // backwards

	distance time.Duration // from etcd, one way
	link     link
	refuses  bool // nobody can connect, the answer is a refusal
	silent   bool // nobody can connect, there is no answer; nor can it connect to others
	denied   bool // etcd's access control refuses its candidate's key
	slow     time.Duration
	lagged   time.Duration // the last instant at which it was hindered; see hinder
	refused  time.Duration // the last instant at which it refused a connection
}

// roles are what the processes of a host are like.
type roles struct {
	observer bool
	fallback bool
	detect   bool // crash detection is on
	drains   bool // when it stops it goes on serving for long
	shards   int  // it works with so many; 0: with none
	excluded bool // by its label: it gets no shards
	proxied  bool // its way to etcd goes through a proxy, whose watches report no progress
	asked    bool // its user does something when a shard comes
}

func newHost(w *world, address string) *host {
	return &host{w: w, address: address, suspended: -1, lagged: -1, refused: -1, rate: w.Int64N(6001) - 3000}
}

// mono is the monotonic clock: it does not run while the machine is suspended.
func (h *host) mono() int64 {
	ran := h.w.now - h.stood
	if h.suspended >= 0 {
		ran = h.suspended - h.stood
	}
	return int64(ran) + int64(ran)*h.rate/1e6 + 1
}

// clock is what both clocks show.
func (h *host) clock() deadline.Instant {
	ran := int64(h.w.now)
	return deadline.Instant{Mono: h.mono(), Wall: ran + ran*h.rate/1e6 + int64(h.wallAhead)}
}

// time is the monotonic clock as the pure code takes it.
func (h *host) time() time.Time { return time.Unix(0, h.mono()) }

// durationOf is a difference of two readings of the monotonic clock.
func durationOf(d int64) time.Duration { return time.Duration(d) }

// untilMono is how long it takes until the monotonic clock shows m, if it runs.
func (h *host) untilMono(m int64) time.Duration {
	left := m - h.mono()
	return time.Duration(left - left*h.rate/1e6 + 1)
}

func (h *host) suspend() { h.suspended = h.w.now }

func (h *host) resume() {
	h.stood += h.w.now - h.suspended
	h.suspended = -1
	if h.process != nil {
		h.process.goOn()
	}
}

// hinder notes that something keeps the host, now, from answering as fast as one that
// is well: a paused process, a way to etcd that is cut. Who is not hindered must not
// be taken for dead.
func (h *host) hinder() { h.lagged = max(h.lagged, h.w.now) }

// hindered reports whether it was at any time since.
func (h *host) hindered(since time.Duration) bool {
	p := h.process
	return h.lagged >= since || h.suspended >= 0 || !h.link.well() || h.slow > 0 || h.w.etcd.away ||
		p != nil && (p.paused || p.mirror.watch == nil || p.mirror.watch.dead || !p.mirror.far.Opened())
}
