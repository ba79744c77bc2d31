package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/internal/candidacy"
	"github.com/goverse/goverse/cluster/state"
)

// checks hold the promises against what happens. They know the truth: what etcd holds,
// who lives, what the time is.
type checks struct {
	failure *Failure
	seen    Seen

	taken       []taken
	accusations []accusation
	wishes      int
	resigned    []int64 // tokens of terms that were told to resign
	begun       int64   // the largest token of a term
	written     int64   // the largest token of a guarded write
	exempt      map[*process]time.Duration
}

// Failure is a promise that was broken.
type Failure struct {
	Promise string // a short name
	What    string
	At      time.Duration
}

// Seen counts what happened in a run, or in many.
type Seen struct {
	Terms, Writes, Refused   int // terms begun, guarded writes accepted, and not
	Acting, Removals, Faults int
	// By hands from outside, and on evidence against one that lived: how often a
	// leader went on without its key, how often beside another one, and for how long
	// at most.
	Exempt  [2]int
	Beside  [2]int
	Longest [2]time.Duration
}

// Add adds what another run has seen.
func (s *Seen) Add(o Seen) {
	s.Terms += o.Terms
	s.Writes += o.Writes
	s.Refused += o.Refused
	s.Acting += o.Acting
	s.Removals += o.Removals
	s.Faults += o.Faults
	for i := range s.Exempt {
		s.Exempt[i] += o.Exempt[i]
		s.Beside[i] += o.Beside[i]
		s.Longest[i] = max(s.Longest[i], o.Longest[i])
	}
}

// taken is something that was taken from a living member, by a hand from outside or
// on evidence.
type taken struct {
	token int64 // of a key; 0 for a lease
	lease int64
	at    time.Duration
	by    by
}

// accusation is one that etcd acknowledged.
type accusation struct {
	revision int64
	at       time.Duration
}

// fail notes that a promise was broken, and ends the run. Only the first counts.
func (c *checks) fail(promise, format string, args ...any) {
	if c.failure == nil {
		c.failure = &Failure{Promise: promise, What: fmt.Sprintf(format, args...)}
	}
}

// step looks at everybody's claims. It is called after everything that happens.
func (c *checks) step(w *world) {
	var leader *process
	for _, h := range w.hosts {
		p := h.process
		if p == nil {
			continue
		}
		if s := p.keeper.session; s != nil && s.valid() {
			c.counts(w, s)
		}
		t := p.election.term
		if !p.leads() {
			if t != nil {
				t.lapsed = true
			}
			delete(c.exempt, p)
			continue
		}
		if t.lapsed && !p.host.stepped {
			c.fail("P1", "%s leads again with token %d, for which it had ceased to", p.id, t.Token)
		}
		c.claim(w, p)
		if leader != nil {
			c.overlap(leader, p)
		}
		leader = p
	}
	if c.failure != nil && !w.over {
		w.over = true
		c.failure.At = w.now
		if w.log != nil {
			w.log.say("BROKEN: %s: %s", c.failure.Promise, c.failure.What)
		}
	}
}

// counts checks what a session that is valid counts on.
func (c *checks) counts(w *world, s *session) {
	// From its end on etcd may give a lease's keys up at any time.
	if l := w.etcd.lease(s.lease); (l == nil || w.now >= l.ends) && c.excuse(s, 0) == nil {
		c.fail("P1", "%s counts on lease %x, which has ended", s.p.id, s.lease)
	}
	if s.doubtBy != 0 && s.p.host.mono() >= s.doubtBy {
		c.fail("P1", "%s counts on its session, though the loss of a watcher was not answered for in time", s.p.id)
	}
}

// claim checks that a leader's key stands, and nobody's before it.
func (c *checks) claim(w *world, p *process) {
	t := p.election.term
	if why := w.stands(t); why != "" {
		x := c.excuse(t.s, t.Token)
		if x == nil {
			c.fail("P1", "%s leads with token %d, but %s", p.id, t.Token, why)
			return
		}
		if _, known := c.exempt[p]; !known {
			if c.exempt == nil {
				c.exempt = map[*process]time.Duration{}
			}
			c.exempt[p] = w.now
			c.seen.Exempt[x.by-hand]++
		}
		d := w.now - c.exempt[p]
		c.seen.Longest[x.by-hand] = max(c.seen.Longest[x.by-hand], d)
		return
	}
	delete(c.exempt, p)
}

// stands is why a term's key does not entitle to lead, "" if it does.
func (w *world) stands(t *term) string {
	e := w.etcd
	if t.Mode == state.ModeFallback {
		if kv := e.get(w.keys.Acting()); kv == nil || kv.CreateRevision != t.Token {
			return "the acting key is gone"
		}
		return "" // a candidate that came waits for it, or is from outside
	}
	if kv := e.get(w.keys.Candidate(t.s.lease)); kv == nil || kv.CreateRevision != t.Token {
		return "its key is gone"
	}
	if e.get(w.keys.Acting()) != nil {
		return "there is an acting leader"
	}
	from, _ := e.find(w.keys.Queue())
	to, _ := e.find(w.keys.QueueEnd())
	for _, kv := range e.keys[from:to] {
		if kv.CreateRevision < t.Token {
			return fmt.Sprintf("%s was there first", kv.Key)
		}
	}
	return ""
}

// excuse is what was taken from the session: the key with that token, or the lease. It
// excuses until a renewal round that was sent later has been answered.
func (c *checks) excuse(s *session, token int64) *taken {
	for i := range c.taken {
		x := &c.taken[i]
		if x.lease == s.lease && x.at >= s.confirmed || token != 0 && x.token == token && x.at >= s.shown(token) {
			return x
		}
	}
	return nil
}

// overlap: two lead at once.
func (c *checks) overlap(a, b *process) {
	for _, p := range []*process{a, b} {
		if x := c.excuse(p.election.term.s, p.election.term.Token); x != nil {
			c.seen.Beside[x.by-hand]++ // events, not overlaps; the length is Longest
			return
		}
	}
	c.fail("P1", "%s leads with token %d, and %s with %d", a.id, a.election.term.Token, b.id, b.election.term.Token)
}

// deleted is told every key that etcd deleted, and why.
func (c *checks) deleted(w *world, kv state.KV, why cause) {
	parsed := w.keys.Parse(kv.Key)
	switch why.by {
	case hand:
		c.taken = append(c.taken, taken{token: kv.CreateRevision, at: w.now, by: hand})
	case removal:
		if parsed.Kind == state.KindNode && kv.CreateRevision != why.member.Incarnation {
			c.fail("P4", "the removal of %s at %d deleted the one at %d", parsed.Address, why.member.Incarnation, kv.CreateRevision)
		}
		c.taken = append(c.taken, taken{token: kv.CreateRevision, lease: why.member.Lease, at: w.now, by: removal})
	case request:
		if p := why.p; parsed.Kind == state.KindCandidate && p != nil && !p.dead {
			c.gaveUp(p, kv)
		}
	}
}

// gaveUp: a member keeps its place in the queue, unless it stops, or was asked.
func (c *checks) gaveUp(p *process, kv state.KV) {
	s := p.keeper.session
	if old := p.last; old != nil && old.Token == kv.CreateRevision && old.s.valid() && old.works(p) {
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
	if c.wishes > 0 {
		return
	}
	c.fail("P3", "%s gave up its place in the queue (%d) without a reason", p.id, kv.CreateRevision)
}

// removed is told of every removal that was carried out. A member that lives can only
// be removed if it refused connections, and could not answer the accusation.
func (c *checks) removed(w *world, m *state.Member, written int64) {
	h := w.host(m.Address)
	p := h.process
	if p == nil || p.id != m.InstanceID {
		return
	}
	c.seen.Removals++
	accused := time.Duration(-1)
	for _, a := range c.accusations {
		if a.revision == written {
			accused = a.at
		}
	}
	switch {
	case accused < 0 || !h.hindered(accused):
		c.fail("P4", "%s was removed, though it lives and reaches etcd", p.id)
	case h.refused < accused-evidenceAge:
		c.fail("P4", "%s was removed, though its address refused nobody", p.id)
	}
}

// evidenceAge is how long the refusals may have been before the accusation they led to.
const evidenceAge = 3 * time.Second

// registered is told of every registration that was carried out, and the key that it
// made.
func (c *checks) registered(p *process, kv *state.KV, revision int64) {
	if kv.CreateRevision != revision {
		c.fail("P6", "%s registered over the one at %d", p.id, kv.CreateRevision)
	}
}

// accused is told of every accusation that was written. Silence leads to none.
func (c *checks) accused(w *world, m *state.Member, revision int64) {
	c.accusations = append(c.accusations, accusation{revision: revision, at: w.now})
	h := w.host(m.Address)
	if p := h.process; p != nil && p.id == m.InstanceID && h.refused < 0 {
		c.fail("P4", "%s was accused, though it lives and its address refused nobody", p.id)
	}
}

// began is told of every term.
func (c *checks) began(p *process, t candidacy.Term) {
	c.seen.Terms++
	if old := p.last; old != nil && old.works(p) {
		c.fail("P2", "%s leads with token %d while work of token %d is running", p.id, t.Token, old.Token)
	}
	if t.Token <= c.begun && c.excuse(p.keeper.session, t.Token) == nil {
		c.fail("P2", "%s leads with token %d, after a term with token %d", p.id, t.Token, c.begun)
	}
	c.begun = max(c.begun, t.Token)
	if t.Mode == state.ModeFallback {
		c.seen.Acting++
		if !p.denied && p.failures < 5 {
			c.fail("P3", "%s acts as leader, though its election has not failed", p.id)
		}
	}
}

// ended is told of every term that ended. None is taken away from a member that has
// its key.
func (c *checks) ended(p *process, e candidacy.Ending) {
	p.last = p.election.ended
	if e.Reason == candidacy.KeyLost {
		t := p.election.ended
		key := p.w.keys.Candidate(t.s.lease)
		if t.Mode == state.ModeFallback {
			key = p.w.keys.Acting()
		}
		if kv := p.w.etcd.get(key); kv != nil && kv.CreateRevision == t.Token {
			c.fail("P3", "%s lost its term %d, though its key stands", p.id, t.Token)
		}
	}
}

// wrote is told of every guarded write that etcd accepted.
func (c *checks) wrote(w *world, p *process, t *term) {
	c.seen.Writes++
	why := ""
	switch kv := w.etcd.get(w.keys.Candidate(t.s.lease)); {
	case t.Mode == state.ModeFallback:
		why = w.stands(t)
		if from, _ := w.etcd.find(w.keys.Queue()); why == "" && from < len(w.etcd.keys) && strings.HasPrefix(w.etcd.keys[from].Key, w.keys.Queue()) {
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

// campaigned is told how a campaign ended.
func (c *checks) campaigned(p *process, err error) {
	switch {
	case err == errDenied:
		p.denied = true
	case err != nil:
		p.failures++
	}
}

// queued is told that a member saw its key in the queue: the election works.
func (c *checks) queued(p *process, revision int64) {
	if revision != 0 {
		p.denied, p.failures = false, 0
	}
}

// works reports whether work of the term is running, and is waited for.
func (t *term) works(p *process) bool {
	return t.work > 0 && p.host.mono() < t.endedAt+int64(workTimeout)
}

// asked is told of a term whose leader was told to resign.
func (c *checks) asked(token int64) { c.resigned = append(c.resigned, token) }

// doubted is told that a session has to be confirmed within.
func (c *checks) doubted(s *session, within time.Duration) {
	by := s.p.host.mono() + int64(within)
	if s.doubtBy == 0 || by < s.doubtBy {
		s.doubtBy = by
	}
	s.doubtedAt = s.p.w.now
}

// confirmed is told that etcd answered a renewal round in full, which began then and
// looked for these keys.
func (c *checks) confirmed(s *session, began time.Duration, keys []protection) {
	s.confirmed = max(s.confirmed, began)
	if began >= s.doubtedAt {
		s.doubtBy = 0
	}
	for _, k := range keys {
		s.shownAt = append(s.shownAt, shown{k.revision, began})
	}
}

// shown is a key that a renewal round looked for.
type shown struct {
	revision int64
	began    time.Duration
}

// shown is when the newest round began that looked for the key; -1 if none did.
func (s *session) shown(revision int64) time.Duration {
	for i := len(s.shownAt) - 1; i >= 0; i-- {
		if s.shownAt[i].revision == revision {
			return s.shownAt[i].began
		}
	}
	return -1
}
