package simulation

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// by is whose doing it is that something was taken from a living member.
type by int

const (
	nobody           by = iota
	hand                // out of band
	removal             // on evidence
	early               // etcd's: a leader of it that was deposed has all leases revoked
	partly              // the same, but it steps down in the middle of it
	outsideCandidate    // who leads beside an acting leader
	exempts
)

// taken is something that was taken from a living member, out of band or
// on evidence.
type taken struct {
	token int64 // of a key; 0 for a lease
	lease int64
	at    time.Duration
	by    by
	from  *process // on whose present session it was a lease; nil: on nobody's, or it was a key
}

// byEtcd reports whether etcd itself took it.
func (t taken) byEtcd() bool { return t.by == early || t.by == partly }

// period checks that nobody claims anew in a period that has lapsed.
func (c *checks) period(x *claim) {
	if x.s == nil || x.p.host.stepped {
		return
	}
	k := &x.p.known
	if lapsed := k.periods[x.period]; !x.stands {
		if !lapsed {
			k.periods[x.period] = true
			if x.s.Err() == nil {
				c.seen.Count[Suspended]++
			}
		}
	} else if lapsed {
		c.fail("P1", "%s claims in a period again that was over", x.p.id)
	} else if len(k.periods) > 0 && x.valid && x.s.Err() == nil && !k.periods[nil] {
		k.periods[nil] = true
		c.seen.Count[Resumed]++
	}
}

// counts checks what a session that is valid counts on.
func (c *checks) counts(x *claim) {
	lease := int64(x.s.ID())
	if c.ended[lease] && c.excuse(x.p, x.s, 0) == nil {
		c.fail("P1", "%s counts on lease %x, which has ended", x.p.id, lease)
	}
	for _, d := range x.p.known.lost {
		if c.w.now() >= d.by && d.s == x.s && x.p.known.confirmed[lease] < d.at {
			c.fail("P1", "%s counts on its session, though the loss of a watcher was not answered for in time", x.p.id)
		}
	}
}

// leads checks that a leader's key stands, and nobody's before it.
func (c *checks) leads(x *claim) {
	why := c.stands(x)
	if why == "" {
		c.keyless = without(c.keyless, x.p)
		return
	}
	t := c.excuse(x.p, x.s, x.token)
	if t == nil {
		c.fail("P1", "%s leads with token %d, but %s", x.p.id, x.token, why)
		return
	}
	e := &c.seen.Exempt[t.by]
	if !slices.Contains(c.keyless, x.p) {
		c.keyless = append(c.keyless, x.p)
		e.Keyless++
	}
	e.LongestKeyless = max(e.LongestKeyless, c.w.now()-t.at)
}

// stands is why a term's key does not entitle to lead, "" if it does.
func (c *checks) stands(x *claim) string {
	keys := c.w.keys
	if x.mode == election.ModeFallback {
		if !c.truth.created(keys.Acting(), x.token) {
			return "the acting key is gone"
		}
		return "" // a candidate that came waits for it, or is from outside
	}
	if !c.truth.created(keys.Candidate(int64(x.s.ID())), x.token) {
		return "its key is gone"
	}
	if c.truth.get(keys.Acting()) != nil {
		return "there is an acting leader"
	}
	if head := c.truth.head(); head.CreateRevision < x.token {
		return fmt.Sprintf("%s was there first", head.Key)
	}
	return ""
}

// excuse is what was taken from the session: the key with that token, or the lease. It
// excuses until a renewal round that was sent later has been answered.
func (c *checks) excuse(p *process, s *etcdsession.Session, token int64) *taken {
	lease := int64(s.ID())
	confirmed, any := p.known.confirmed[lease]
	shown, found := p.known.shown[token]
	for i := range c.taken {
		t := &c.taken[i]
		if t.lease == lease && (!any || t.at >= confirmed) || token != 0 && t.token == token && (!found || t.at >= shown) {
			return t
		}
	}
	return nil
}

// reports checks that a member that registers anew says so where etcd revoked its lease while that counted: by that
// the others know how long to wait for those who do not say anything.
func (c *checks) reports(p *process, node *mvccpb.KeyValue) {
	s := p.known.last
	if s == nil || s.Ended() || p.host.stepped || !slices.ContainsFunc(c.taken, func(t taken) bool {
		return t.from == p && t.lease == int64(s.ID()) && t.byEtcd()
	}) {
		return
	}
	record, err := state.DecodeRecord(node.Value)
	if err != nil || !record.RevokedEarly {
		c.fail("P1", "%s does not say that etcd revoked lease %x early", p.id, int64(s.ID()))
	}
	c.seen.Count[EarlyReported]++
}

// excuses reports whether what was taken from p excuses that other claims the same. What etcd itself
// took does only if a process has begun to look since, which cannot know who was there before, and may
// lead and deal out shards; if other's watch or process stood still just then; or if a hand made p
// look like no member. Where etcd took some leases only, and nobody reports that, it does too if p was cut off from it,
// for others wait for a grace period only; or had not heard that etcd had another leader when it stood still.
func (c *checks) excuses(t *taken, p, other *process) bool {
	if !t.byEtcd() {
		return true
	}
	s := p.session()
	if t.by == partly && !c.isReported(t) && (p.host.cutOff(t.at) || s != nil && p.core.Mirror.Term() <= s.Term()) {
		return true
	}
	fresh := slices.ContainsFunc(c.w.hosts, func(h *host) bool {
		return h.process != nil && (h.process.looks == 0 || h.process.looks > t.at)
	})
	return fresh || other.host.hindered(t.at) || slices.Contains(c.taints, p.known.incarnation) ||
		slices.ContainsFunc(c.taken, func(y taken) bool { return y.by == hand && y.token == p.known.incarnation })
}

// isReported reports whether another member lost its lease with t's, or within a TTL before, and nothing kept it from
// registering anew, with a report of that, while others waited for a grace period.
func (c *checks) isReported(t *taken) bool {
	return slices.ContainsFunc(c.taken, func(o taken) bool {
		return o.byEtcd() && o.lease != t.lease && o.at > t.at-c.w.ttl && o.at <= t.at+mostApart &&
			o.from != nil && !o.from.dead.Load() && !o.from.leaves && !o.from.host.hindered(o.at)
	})
}

// overlap checks that no two lead at once.
func (c *checks) overlap(leaders []*claim) {
	if len(leaders) < 2 {
		c.beside = 0
		return
	}
	a, b := leaders[0], leaders[1]
	for _, two := range [2][2]*claim{{a, b}, {b, a}} {
		x, other := two[0], two[1]
		if t := c.excuse(x.p, x.s, x.token); t != nil && c.excuses(t, x.p, other.p) {
			e := &c.seen.Exempt[t.by]
			if c.beside == 0 {
				c.beside = c.w.now()
				e.Overlaps++
			}
			e.Longest = max(e.Longest, c.w.now()-c.beside)
			return
		}
	}
	c.fail("P1", "%s leads with token %d, and %s with %d", a.p.id, a.token, b.p.id, b.token)
}

// besideOutside counts how long an acting leader goes on when an outside candidate
// came, who leads at once.
func (c *checks) besideOutside(leaders []*claim) {
	head := c.truth.head()
	if len(leaders) == 0 || leaders[0].mode != election.ModeFallback || head == nil ||
		c.w.host(string(head.Value)) != nil {
		c.outside = 0
		return
	}
	e := &c.seen.Exempt[outsideCandidate]
	if c.outside == 0 {
		c.outside = c.w.now()
		e.Overlaps++
	}
	e.Longest = max(e.Longest, c.w.now()-c.outside)
}
