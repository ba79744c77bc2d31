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
	all map[*sampledClaim]struct{} // claims not known to be over
}

// newSampledClaims returns a sampler of a node's claims, which are asked until Stop. With a nil session the claims are
// on no session.
func (r *Recorder) newSampledClaims(node string, session func() int64) *sampledClaims {
	if session == nil {
		session = func() int64 { return 0 }
	}
	s := &sampledClaims{rec: r, node: node, session: session, all: map[*sampledClaim]struct{}{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.wg.Go(s.sampleAll)
	}
	return s
}

func (s *sampledClaims) sampleAll() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var all []*sampledClaim
	for {
		all = all[:0]
		s.mu.Lock()
		for c := range s.all {
			all = append(all, c)
		}
		s.mu.Unlock()
		for _, c := range all {
			c.sampleOnce()
		}
		select {
		case <-tick.C:
		case <-s.rec.stop:
			for _, c := range all {
				c.writeRest()
			}
			return
		}
	}
}

// sampledClaim is one sampled claim. Each counts as a life of its own.
type sampledClaim struct {
	in     *sampledClaims
	who    NodeLife
	shared bool
	valid  func() (token int64, ok bool)

	mu    sync.Mutex
	track subjectTrack
	over  bool // given up, or answered that it is not valid
}

// startClaim starts sampling a claim to a subject. The claim did not exist at the instant before.
func (s *sampledClaims) startClaim(subject Subject, shared bool, before Instant,
	valid func() (token int64, ok bool)) *sampledClaim {
	c := &sampledClaim{in: s, shared: shared, valid: valid, who: NodeLife{Process: s.rec.process, Node: s.node,
		Life: int(s.rec.ids.Add(1))}, track: subjectTrack{subject: subject}}
	c.recordAbsence(Window{before, before})
	s.mu.Lock()
	s.all[c] = struct{}{}
	s.mu.Unlock()
	c.sampleOnce()
	return c
}

// sampleOnce samples the claim once.
func (c *sampledClaim) sampleOnce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	one := c.emptySample().sampleClaim(c.in.session, c.valid)
	c.addSample(one)
	if !one.Leads {
		c.stopSampling()
	}
}

// endClaim samples the claim a last time and reports whether it was valid until now.
func (c *sampledClaim) endClaim() bool {
	c.sampleOnce()
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := !c.over
	c.stopSampling()
	return valid
}

// recordEnd records that a claim that was given up did not exist at some instant within w.
func (c *sampledClaim) recordEnd(w Window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordAbsence(w)
}

// writeRest writes the part of the current run that is not written yet.
func (c *sampledClaim) writeRest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.track.current != c.track.written {
		c.in.rec.writeLines(lineOf(c.track.current))
	}
}

// emptySample returns a sample without an answer.
func (c *sampledClaim) emptySample() Run {
	return Run{NodeLife: c.who, Subject: c.track.subject, Shared: c.shared, Count: 1}
}

// recordAbsence records that the claim did not exist at some instant within w. The caller holds c.mu, or has not
// published c yet.
func (c *sampledClaim) recordAbsence(w Window) {
	one := c.emptySample()
	one.First = w
	c.addSample(one)
}

// addSample records one sample. The caller holds c.mu, or has not published c yet.
func (c *sampledClaim) addSample(one Run) {
	if lines := c.track.addSample(one, one.Leads); len(lines) > 0 {
		c.in.rec.writeLines(lines...)
	}
}

// stopSampling ends the sampling of the claim. The caller holds c.mu.
func (c *sampledClaim) stopSampling() {
	c.over = true
	c.in.mu.Lock()
	delete(c.in.all, c)
	c.in.mu.Unlock()
}
