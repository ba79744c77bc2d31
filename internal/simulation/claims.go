package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
)

// taken is something that was taken from a living member, out of band or
// on evidence.
type taken struct {
	token int64 // of a key; 0 for a lease
	lease int64
	at    time.Duration
	by    by
}

// counts checks what a session that is valid counts on.
func (c *checks) counts(w *world, s *session) {
	// From its end on etcd may give a lease's keys up at any time.
	if l := w.etcd.lease(s.lease); (l == nil || w.now >= l.ends) && c.excuse(s, 0) == nil {
		c.fail("P1", "%s counts on lease %x, which has ended", s.p.id, s.lease)
	}
	for _, d := range s.lostWatches {
		if s.p.host.mono() >= d.by {
			c.fail("P1", "%s counts on its session, though the loss of a watcher was not answered for in time", s.p.id)
		}
	}
}

// claim checks that a leader's key stands, and nobody's before it.
func (c *checks) claim(w *world, p *process) {
	t := p.election.term
	if t.lapsed && !p.host.stepped {
		c.fail("P1", "%s leads again with token %d, for which it had ceased to", p.id, t.Token)
	}
	if t.stoodAt != w.etcd.revision { // nothing else can alter it
		t.stoodAt, t.fallen = w.etcd.revision, w.stands(t)
	}
	why := t.fallen
	if why == "" {
		c.keyless = drop(c.keyless, p)
		return
	}
	x := c.excuse(t.s, t.Token)
	if x == nil {
		c.fail("P1", "%s leads with token %d, but %s", p.id, t.Token, why)
		return
	}
	if !slices.Contains(c.keyless, p) {
		c.keyless = append(c.keyless, p)
		c.seen.Exempt[x.by].Keyless++
	}
	e := &c.seen.Exempt[x.by]
	e.LongestKeyless = max(e.LongestKeyless, w.now-x.at)
}

// stands is why a term's key does not entitle to lead, "" if it does.
func (w *world) stands(t *term) string {
	e := w.etcd
	if t.Mode == election.ModeFallback {
		if kv := e.get(actingKey); kv == nil || kv.CreateRevision != t.Token {
			return "the acting key is gone"
		}
		return "" // a candidate that came waits for it, or is from outside
	}
	if kv := e.get(t.s.key); kv == nil || kv.CreateRevision != t.Token {
		return "its key is gone"
	}
	if e.get(actingKey) != nil {
		return "there is an acting leader"
	}
	if head := w.head(); head.CreateRevision < t.Token {
		return fmt.Sprintf("%s was there first", head.Key)
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

// excuses reports whether what was taken from p excuses that other claims the same. What etcd itself
// took does only if a process has begun to look since, which cannot know who was there before, and may
// lead and deal out shards; if other's watch or process stood still just then; or if a hand made p
// look like no member.
func (c *checks) excuses(x *taken, p, other *process) bool {
	if x.by != early {
		return true
	}
	fresh := slices.ContainsFunc(p.w.hosts, func(h *host) bool {
		return h.process != nil && (h.process.looks > x.at || h.process.mirror.snapshot == nil)
	})
	return fresh || other.host.hindered(x.at) || slices.Contains(c.taints, p.member.incarnation) ||
		slices.ContainsFunc(c.taken, func(y taken) bool { return y.by == hand && y.token == p.member.incarnation })
}

// overlap checks that no two lead at once.
func (c *checks) overlap(w *world, leaders [2]*process) {
	if leaders[1] == nil {
		c.beside = 0
		return
	}
	for i, p := range leaders {
		if x := c.excuse(p.election.term.s, p.election.term.Token); x != nil && c.excuses(x, p, leaders[1-i]) {
			e := &c.seen.Exempt[x.by]
			if c.beside == 0 {
				c.beside = w.now
				e.Overlaps++
			}
			e.Longest = max(e.Longest, w.now-c.beside)
			return
		}
	}
	a, b := leaders[0], leaders[1]
	c.fail("P1", "%s leads with token %d, and %s with %d", a.id, a.election.term.Token, b.id, b.election.term.Token)
}

// besideOutside counts how long an acting leader goes on when an outside candidate
// came, who leads at once.
func (c *checks) besideOutside(w *world, leader *process) {
	if leader == nil || leader.election.term.Mode != election.ModeFallback {
		c.outside = 0
		return
	}
	head := w.head()
	if head == nil || w.host(string(head.Value)) != nil {
		c.outside = 0
		return
	}
	e := &c.seen.Exempt[outsideCandidate]
	if c.outside == 0 {
		c.outside = w.now
		e.Overlaps++
	}
	e.Longest = max(e.Longest, w.now-c.outside)
}

// head is the first candidate's key in truth, nil when there is none.
func (w *world) head() *state.KV {
	from, _ := w.etcd.find(queueStart)
	to, _ := w.etcd.find(queueEnd)
	var head *state.KV
	for i := from; i < to; i++ {
		if kv := &w.etcd.keys[i]; head == nil || kv.CreateRevision < head.CreateRevision {
			head = kv
		}
	}
	return head
}
