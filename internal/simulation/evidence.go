package simulation

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// accusation is one that etcd acknowledged.
type accusation struct {
	revision int64
	at       time.Duration
}

// accused is called with every accusation that was written. Silence leads to none.
func (c *checks) accused(w *world, m *state.Member, revision int64) {
	c.count(Accused)
	c.accusations = append(c.accusations, accusation{revision: revision, at: w.now})
	if m.RoundTripMS > 0 {
		c.count(FarAccused)
	}
	h := w.host(m.Address)
	if p := h.process; p != nil && p.id == m.InstanceID && h.refused < 0 {
		c.fail("P4", "%s was accused, though it lives and its address refused nobody", p.id)
	}
}

// evidenceAge is how long the refusals may have been before the accusation they led to.
const evidenceAge = 3 * time.Second

// removed is called with every removal that was carried out. A member that lives can only
// be removed if it refused connections, and could not answer the accusation.
func (c *checks) removed(w *world, m *state.Member, written int64) {
	h := w.host(m.Address)
	p := h.process
	if p == nil || p.id != m.InstanceID {
		c.count(DeadRemoved)
		return
	}
	c.seen.Count[LivingRemoved]++
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

// registered is called with every registration that was carried out, and the key that it
// made.
func (c *checks) registered(p *process, kv *state.KV, revision int64) {
	if kv.CreateRevision != revision {
		c.fail("P6", "%s registered over the one at %d", p.id, kv.CreateRevision)
	}
}

// lostWatch is the loss of a watcher, for which etcd has to answer.
type lostWatch struct {
	at time.Duration // by what is sent from then on
	by int64         // before the monotonic clock shows this
}

// suspected is called when a session has to be confirmed, within so long.
func (c *checks) suspected(s *session, within time.Duration) {
	c.count(Suspected)
	s.lostWatches = append(s.lostWatches, lostWatch{at: s.p.w.now, by: s.p.host.mono() + int64(within)})
}

// confirmed is called when etcd answered a renewal round in full, which began then and
// looked for these keys.
func (c *checks) confirmed(s *session, began time.Duration, keys []protection) {
	s.confirmed = max(s.confirmed, began)
	s.lostWatches = slices.DeleteFunc(s.lostWatches, func(d lostWatch) bool { return began >= d.at })
	if n := len(s.lostWatches); n > 1 {
		s.lostWatches = s.lostWatches[n-1:] // a claim that was confirmed meanwhile remembers the last one
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
