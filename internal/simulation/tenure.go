package simulation

import (
	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/candidacy"
	"github.com/goverse/goverse/internal/state"
)

// began is called with every term.
func (c *checks) began(p *process, t candidacy.Term) {
	c.seen.Count[TermBegan]++
	if old := p.last; old != nil && old.works(p) {
		c.fail("P2", "%s leads with token %d while work of token %d is running", p.id, t.Token, old.Token)
	}
	if t.Token <= c.begun && c.excuse(p.keeper.session, t.Token) == nil {
		c.fail("P2", "%s leads with token %d, after a term with token %d", p.id, t.Token, c.begun)
	}
	c.begun = max(c.begun, t.Token)
	if t.Mode == election.ModeFallback {
		c.seen.Count[ActingTerm]++
		if !p.denied && p.failures < 5 {
			c.fail("P3", "%s acts as leader, though its election has not failed", p.id)
		}
	}
}

// ended is called with every term that ended. None is taken away from a member that has
// its key.
func (c *checks) ended(p *process, e candidacy.Ending) {
	p.last = p.election.ended
	for h, reason := range endings {
		if reason == e.Reason {
			c.seen.Count[h]++
		}
	}
	if e.Reason == election.ReasonSessionLost {
		c.asked(e.Token) // if the session was only suspended, the member queues anew
	}
	if e.Reason == election.ReasonKeyLost {
		t := p.election.ended
		key := p.w.keys.Candidate(t.s.lease)
		if t.Mode == election.ModeFallback {
			key = p.w.keys.Acting()
		}
		if kv := p.w.etcd.get(key); kv != nil && kv.CreateRevision == t.Token {
			c.fail("P3", "%s lost its term %d, though its key stands", p.id, t.Token)
		}
	}
}

var endings = [occurrences]election.Reason{Resigned: election.ReasonResigned, GaveWay: election.ReasonRequested,
	KeyLost:     election.ReasonKeyLost,
	SessionLost: election.ReasonSessionLost, Superseded: election.ReasonSuperseded}

// wrote is called with every guarded write that etcd accepted.
func (c *checks) wrote(w *world, p *process, t *term) {
	c.seen.Count[WriteAccepted]++
	why := ""
	switch kv := w.etcd.get(w.keys.Candidate(t.s.lease)); {
	case t.Mode == election.ModeFallback:
		why = w.stands(t)
		if why == "" && w.head() != nil {
			why = "somebody queues"
		}
	case kv == nil || kv.CreateRevision != t.Token:
		why = "its key is gone"
	}
	if why != "" {
		c.fail("P2", "etcd accepted a write of %s with token %d, but %s", p.id, t.Token, why)
	}
	if t.Token < c.written {
		c.fail("P2", "etcd accepted a write of %s with token %d after one with %d", p.id, t.Token, c.written)
	}
	c.written = max(c.written, t.Token)
}

// put is called with every key that etcd wrote.
func (c *checks) put(w *world, kv state.KV) {
	if len(c.forged) == 0 {
		return
	}
	if parsed := w.keys.Parse(kv.Key); parsed.Kind == state.KindReleased {
		c.reported(parsed.Address, kv.ModRevision)
	}
}

// deleted is called with every key that etcd deleted, and why.
func (c *checks) deleted(w *world, kv state.KV, why cause) {
	parsed := w.keys.Parse(kv.Key)
	if parsed.Kind == state.KindReleased {
		c.reported(parsed.Address, w.etcd.revision)
	}
	switch why.by {
	case hand:
		c.taken = append(c.taken, taken{token: kv.CreateRevision, at: w.now, by: hand})
	case removal:
		if parsed.Kind == state.KindNode && kv.CreateRevision != why.member.Incarnation {
			c.fail("P4", "the removal of %s at %d deleted the one at %d",
				parsed.Address, why.member.Incarnation, kv.CreateRevision)
		}
		c.taken = append(c.taken, taken{token: kv.CreateRevision, lease: why.member.KeyLease, at: w.now, by: removal})
	case request:
		if p := why.p; parsed.Kind == state.KindCandidate && p != nil && !p.dead {
			c.gaveUp(p, kv)
		}
	}
}

// gaveUp: a member keeps its place in the queue, unless it stops, or was asked.
func (c *checks) gaveUp(p *process, kv state.KV) {
	s := p.keeper.session
	if old := p.last; old != nil && old.Token == kv.CreateRevision && old.valid() && old.works(p) {
		c.fail("P2", "%s gives its key %d up while work of that term is running", p.id, old.Token)
	}
	if s == nil || !s.valid() || kv.Lease != s.lease || !p.election.part.Standing() {
		return
	}
	for _, token := range c.resigned {
		if token == kv.CreateRevision {
			return
		}
	}
	if c.requests > 0 {
		return
	}
	c.fail("P3", "%s gave up its place in the queue (%d) without a reason", p.id, kv.CreateRevision)
}

// campaigned is called with how a campaign ended.
func (c *checks) campaigned(p *process, err error) {
	switch {
	case err == errDenied:
		p.denied = true
	case err != nil:
		c.count(CampaignFailed)
		p.failures++
	}
}

// queued is called when a member saw its key in the queue: the election works.
func (c *checks) queued(p *process, revision int64) {
	if revision != 0 {
		p.denied, p.failures = false, 0
	}
}

// works reports whether work of the term is running, and is waited for.
func (t *term) works(p *process) bool {
	return t.work > 0 && p.host.mono() < t.endedAt+int64(workTimeout)
}

// asked is called with a term whose leader has to give its key up.
func (c *checks) asked(token int64) { c.resigned = append(c.resigned, token) }
