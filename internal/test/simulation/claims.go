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

// by is the originator of the loss of a living member's key or lease.
type by int

const (
	nobody           by = iota
	hand                // an out-of-band change
	removal             // on evidence
	early               // etcd: a deposed leader of etcd has all leases revoked
	partly              // the same, but it steps down before it has revoked all
	outsideCandidate    // leads beside an acting leader
	exempts
)

// taken is a key or a lease that a living member lost out of band or by a removal on evidence.
type taken struct {
	token int64 // of a key; 0 for a lease
	lease int64
	at    time.Duration
	by    by
	from  *process // the process with its present session on the lease; nil if none, or for a key
}

// byEtcd reports whether etcd itself took it.
func (t taken) byEtcd() bool { return t.by == early || t.by == partly }

// period checks that a process does not claim again in a period that has lapsed.
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

// counts checks that a valid session is still entitled to be valid.
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

// leads checks that a leader's key exists and is the first.
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

// stands returns the reason why a term's key does not entitle to lead, or "" if it does.
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

// excuse returns the loss of the key with that token, or of the session's lease, if there was one. It excuses
// until a renewal round that was sent later has been answered.
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

// reports checks that a member that registers anew reports the early revocation of its lease by etcd, if that
// still counted. From such reports the others learn how long to wait for members that report nothing.
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

// excuses reports whether the loss of p's key or lease excuses that other makes the same claim. Most losses do.
// A loss by etcd itself does so only in these cases: a process has since started to observe, which cannot know
// the earlier claims and may lead and assign shards; other's watch or process stood still at that time; or an
// out-of-band change made p look like no member. If etcd took only some leases and no member reports that, the
// loss also excuses if p was cut off from etcd, because others wait only for a grace period, or if p had not
// seen etcd's new leader when it stood still.
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

// isReported reports whether another member lost its lease together with t's, or within a TTL before, and could
// register anew with a report of that while others waited for a grace period.
func (c *checks) isReported(t *taken) bool {
	return slices.ContainsFunc(c.taken, func(o taken) bool {
		return o.byEtcd() && o.lease != t.lease && o.at > t.at-c.w.ttl && o.at <= t.at+mostApart &&
			o.from != nil && !o.from.dead.Load() && !o.from.leaves && !o.from.host.hindered(o.at)
	})
}

// overlap checks that no two processes lead at once.
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

// besideOutside measures for how long an acting leader continues after an outside candidate came, which leads
// at once.
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
