package simulation

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// keyLoss is a key or a lease that a living member lost out of band or by a removal on evidence.
type keyLoss struct {
	token int64 // of a key; 0 for a lease
	lease int64
	at    time.Duration
	by    originator
	from  *process // the process with its present session on the lease; nil if none, or for a key
}

// isByEtcd reports whether etcd itself took it.
func (t keyLoss) isByEtcd() bool { return t.by == byEtcdEarly || t.by == byEtcdPartly }

// checkPeriod checks that a process does not claim again in a period that has lapsed.
func (c *checks) checkPeriod(x *claim) {
	if x.s == nil || x.p.host.stepped {
		return
	}
	k := &x.p.facts
	if lapsed := k.periods[x.period]; !x.stands {
		if !lapsed {
			k.periods[x.period] = true
			if x.s.Err() == nil {
				c.w.Counts.Count(Suspended)
			}
		}
	} else if lapsed {
		c.fail("P1", "%s claims again in a period that has lapsed", x.p.id)
	} else if len(k.periods) > 0 && x.valid && x.s.Err() == nil && !k.periods[nil] {
		k.periods[nil] = true
		c.w.Counts.Count(Resumed)
	}
}

// checkSession checks that a valid session is still entitled to be valid.
func (c *checks) checkSession(x *claim) {
	lease := int64(x.s.ID())
	if c.ended[lease] && c.findLoss(x.p, x.s, 0) == nil {
		c.fail("P1", "%s relies on lease %x, which has ended", x.p.id, lease)
	}
	for _, d := range x.p.facts.lost {
		if c.w.Now() >= d.by && d.s == x.s && x.p.facts.confirmed[lease] < d.at {
			c.fail("P1", "%s relies on its session, unconfirmed after the loss of a watcher", x.p.id)
		}
	}
}

// checkLeader checks that a leader's key exists and is the first.
func (c *checks) checkLeader(x *claim) {
	why := c.termKeyDefect(x)
	if why == "" {
		c.keyless = removeValue(c.keyless, x.p)
		return
	}
	t := c.findLoss(x.p, x.s, x.token)
	if t == nil {
		c.fail("P1", "%s leads with token %d, but %s", x.p.id, x.token, why)
		return
	}
	if !slices.Contains(c.keyless, x.p) {
		c.keyless = append(c.keyless, x.p)
		c.w.Counts.Count(t.by.keyless())
	}
	c.w.Counts.Lasted(t.by.keyless(), c.w.Now()-t.at)
}

// termKeyDefect returns the reason why a term's key does not entitle to lead, or "" if it does.
func (c *checks) termKeyDefect(x *claim) string {
	keys := c.w.keys
	if x.mode == leaderelection.ModeFallback {
		if !c.truth.keyExists(keys.Acting(), x.token) {
			return "the acting key is gone"
		}
		return "" // a candidate that came waits for it, or is from outside
	}
	if !c.truth.keyExists(keys.Candidate(int64(x.s.ID())), x.token) {
		return "its key is gone"
	}
	if c.truth.getKey(keys.Acting()) != nil {
		return "there is an acting leader"
	}
	if head := c.truth.firstCandidate(); head.CreateRevision < x.token {
		return fmt.Sprintf("%s was there first", head.Key)
	}
	return ""
}

// findLoss returns the loss of the key with that token, or of the session's lease, if there was one. It excuses
// until a renewal round that was sent later has been answered.
func (c *checks) findLoss(p *process, s *etcdsession.Session, token int64) *keyLoss {
	lease := int64(s.ID())
	confirmed, any := p.facts.confirmed[lease]
	shown, found := p.facts.shown[token]
	for i := range c.losses {
		t := &c.losses[i]
		if t.by == bySilence {
			continue // the process had no claims left
		}
		if t.lease == lease && (!any || t.at >= confirmed) || token != 0 && t.token == token && (!found || t.at >= shown) {
			return t
		}
	}
	return nil
}

// checkEarlyReport checks that a member that registers anew reports the early revocation of its lease by etcd, if that
// still counted. From such reports the others learn how long to wait for members that report nothing.
func (c *checks) checkEarlyReport(p *process, node *mvccpb.KeyValue) {
	s := p.facts.last
	if s == nil || s.LeaseEnded() || p.host.stepped || !slices.ContainsFunc(c.losses, func(t keyLoss) bool {
		return t.from == p && t.lease == int64(s.ID()) && t.isByEtcd()
	}) {
		return
	}
	record, err := state.DecodeRecord(node.Value)
	if err != nil || !record.RevokedEarly {
		c.fail("P1", "%s does not report that etcd revoked lease %x early", p.id, int64(s.ID()))
	}
	c.w.Counts.Count(EarlyReported)
}

// lossExcuses reports whether the loss of p's key or lease excuses that other makes the same claim. Most losses do.
// A loss by etcd itself does so only in these cases: a process has since started to observe, which cannot know
// the earlier claims and may lead and assign shards; other's watch or process stood still at that time; or an
// out-of-band change made p look like no member. If etcd took only some leases and no member reports that, the
// loss also excuses if p was cut off from etcd, because others wait only for a grace period, or if p had not
// seen etcd's new leader when it stood still.
func (c *checks) lossExcuses(t *keyLoss, p, other *process) bool {
	if !t.isByEtcd() {
		return true
	}
	s := p.session()
	if t.by == byEtcdPartly && !c.lossReported(t) && (p.host.wasCutOff(t.at) || s != nil &&
		p.registered.Mirror.KnownTerm() <= s.RaftTerm()) {
		return true
	}
	fresh := slices.ContainsFunc(c.w.hosts, func(h *host) bool {
		return h.process != nil && (h.process.viewSince == 0 || h.process.viewSince > t.at)
	})
	return fresh || other.host.wasHindered(t.at) || slices.Contains(c.taints, p.facts.incarnation) ||
		slices.ContainsFunc(c.losses, func(y keyLoss) bool { return y.by == byOutOfBand && y.token == p.facts.incarnation })
}

// lossReported reports whether another member lost its lease together with t's, or within a TTL before, and could
// register anew with a report of that while others waited for a grace period.
func (c *checks) lossReported(t *keyLoss) bool {
	return slices.ContainsFunc(c.losses, func(o keyLoss) bool {
		return o.isByEtcd() && o.lease != t.lease && o.at > t.at-c.w.ttl && o.at <= t.at+maxApart &&
			o.from != nil && !o.from.dead.Load() && !o.from.stopRequested && !o.from.host.wasHindered(o.at)
	})
}

// checkOverlap checks that no two processes lead at once.
func (c *checks) checkOverlap(leaders []*claim) {
	if len(leaders) < 2 {
		c.beside = 0
		return
	}
	a, b := leaders[0], leaders[1]
	for _, two := range [2][2]*claim{{a, b}, {b, a}} {
		x, other := two[0], two[1]
		if t := c.findLoss(x.p, x.s, x.token); t != nil && c.lossExcuses(t, x.p, other.p) {
			c.countLasting(t.by.overlaps(), &c.beside)
			return
		}
	}
	c.fail("P1", "%s leads with token %d, and %s with %d", a.p.id, a.token, b.p.id, b.token)
}

// checkBesideOutside measures for how long an acting leader continues after an outside candidate came, which leads
// at once.
func (c *checks) checkBesideOutside(leaders []*claim) {
	head := c.truth.firstCandidate()
	if len(leaders) == 0 || leaders[0].mode != leaderelection.ModeFallback || head == nil ||
		c.w.hostAt(string(head.Value)) != nil {
		c.outside = 0
		return
	}
	c.countLasting(byOutsideCandidate.overlaps(), &c.outside)
}

// countLasting counts an exempt case that lasts. since is the time of its begin, 0 before it.
func (c *checks) countLasting(event string, since *time.Duration) {
	if *since == 0 {
		*since = c.w.Now()
		c.w.Counts.Count(event)
	}
	c.w.Counts.Lasted(event, c.w.Now()-*since)
}
