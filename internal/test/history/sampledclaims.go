package history

import (
	"sync"
	"time"
)

// sampledClaims samples the claims of one node that come and go, such as its locks. Each claim is asked every
// millisecond whether it is valid, from its start until it is over or answers no.
type sampledClaims struct {
	rec     *Recorder
	node    string
	session func() int64

	mu  sync.Mutex
	all map[*claim]struct{} // claims not known to be over
}

// sample returns a sampler of a node's claims, which are asked until Stop. With a nil session the claims are on
// no session.
func (r *Recorder) sample(node string, session func() int64) *sampledClaims {
	if session == nil {
		session = func() int64 { return 0 }
	}
	s := &sampledClaims{rec: r, node: node, session: session, all: map[*claim]struct{}{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.wg.Go(s.run)
	}
	return s
}

func (s *sampledClaims) run() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var all []*claim
	for {
		all = all[:0]
		s.mu.Lock()
		for c := range s.all {
			all = append(all, c)
		}
		s.mu.Unlock()
		for _, c := range all {
			c.look()
		}
		select {
		case <-tick.C:
		case <-s.rec.stop:
			for _, c := range all {
				c.flush()
			}
			return
		}
	}
}

// claim is one sampled claim. Each counts as a life of its own.
type claim struct {
	in     *sampledClaims
	who    NodeLife
	shared bool
	valid  func() (token int64, ok bool)

	mu    sync.Mutex
	track track
	over  bool // given up, or answered that it is not valid
}

// begin starts sampling a claim to a subject. The claim did not exist at the instant before.
func (s *sampledClaims) begin(subject Subject, shared bool, before Instant,
	valid func() (token int64, ok bool)) *claim {
	c := &claim{in: s, shared: shared, valid: valid, who: NodeLife{Process: s.rec.process, Node: s.node,
		Life: int(s.rec.ids.Add(1))}, track: track{subject: subject}}
	c.stoodNot(Window{before, before})
	s.mu.Lock()
	s.all[c] = struct{}{}
	s.mu.Unlock()
	c.look()
	return c
}

// look samples the claim once.
func (c *claim) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	one := c.sample().ask(c.in.session, c.valid)
	c.add(one)
	if !one.Leads {
		c.forget()
	}
}

// giveUp samples the claim a last time and reports whether it was valid until now.
func (c *claim) giveUp() bool {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := !c.over
	c.forget()
	return valid
}

// ended records that a claim that was given up did not exist at some instant within w.
func (c *claim) ended(w Window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stoodNot(w)
}

// flush writes the part of the current run that is not written yet.
func (c *claim) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.track.current != c.track.written {
		c.in.rec.write(lineOf(c.track.current))
	}
}

// sample returns a sample without an answer.
func (c *claim) sample() Run {
	return Run{NodeLife: c.who, Subject: c.track.subject, Shared: c.shared, Count: 1}
}

// stoodNot records that the claim did not exist at some instant within w. The caller holds c.mu, or has not
// published c yet.
func (c *claim) stoodNot(w Window) {
	one := c.sample()
	one.First = w
	c.add(one)
}

// add records one sample. The caller holds c.mu, or has not published c yet.
func (c *claim) add(one Run) {
	if lines := c.track.add(one, one.Leads); len(lines) > 0 {
		c.in.rec.write(lines...)
	}
}

// forget ends the sampling of the claim. The caller holds c.mu.
func (c *claim) forget() {
	c.over = true
	c.in.mu.Lock()
	delete(c.in.all, c)
	c.in.mu.Unlock()
}
