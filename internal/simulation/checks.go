package simulation

import (
	"fmt"
	"time"
)

// checks hold the promises against what happens. They know the truth: what etcd holds,
// who lives, what the time is.
type checks struct {
	failure *Failure
	seen    Seen

	taken       []taken
	accusations []accusation
	requests    int
	resigned    []int64 // tokens of terms whose leader had to give its key up
	begun       int64   // the largest token of a term
	written     int64   // the largest token of a guarded write

	owners

	keyless []*process    // leaders that go on without their key, excused
	beside  time.Duration // since when two lead at once, excused; 0: they do not
	outside time.Duration // since when one acts beside an outside candidate; 0: none does
}

// Failure is a promise that was broken.
type Failure struct {
	Promise string // a short name
	What    string
	At      time.Duration
}

// String says it in one line.
func (f *Failure) String() string {
	return fmt.Sprintf("%s broken after %v: %s", f.Promise, f.At.Round(time.Microsecond), f.What)
}

// fail notes that a promise was broken, and ends the run. Only the first counts.
func (c *checks) fail(promise, format string, args ...any) {
	if c.failure == nil {
		c.failure = &Failure{Promise: promise, What: fmt.Sprintf(format, args...)}
	}
}

// count notes that something happened.
func (c *checks) count(h Occurrence) { c.seen.Count[h]++ }

// step looks at everybody's claims. It is called after everything that happens.
func (c *checks) step(w *world) {
	var leaders [2]*process
	n := 0
	for _, h := range w.hosts {
		p := h.process
		if p == nil {
			continue
		}
		if s := p.keeper.session; s != nil && s.valid() {
			c.counts(w, s)
			c.hold(w, p)
		}
		if p.election.term == nil {
			continue
		}
		if !p.leads() {
			p.election.term.lapsed = true
			c.keyless = drop(c.keyless, p)
			continue
		}
		c.claim(w, p)
		leaders[min(n, 1)] = p
		n++
	}
	c.held()
	if w.queue.seq%128 == 0 {
		c.awake(w)
	}
	c.overlap(w, leaders)
	c.besideOutside(w, leaders[0])
	if c.failure != nil && !w.over {
		w.over = true
		c.failure.At = w.now
		if w.log != nil {
			w.log.say("BROKEN: %s: %s", c.failure.Promise, c.failure.What)
		}
	}
}
