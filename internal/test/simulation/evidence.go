package simulation

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// accusation is an accusation that etcd acknowledged.
type accusation struct {
	address, accuser string
	at               time.Duration
}

// evidenceAge limits the age of the refusals at the time of the accusation.
const evidenceAge = 3 * time.Second

// livingProcess returns the process at an address with that incarnation, or nil if it is gone.
func (c *checks) livingProcess(address string, incarnation int64) *process {
	h := c.w.hostAt(address)
	if h == nil || h.process == nil || h.process.facts.incarnation != incarnation {
		return nil
	}
	return h.process
}

// checkAccusations checks every accusation that was written. Silence must not lead to one.
func (c *checks) checkAccusations(accuser *process, r *pb.TxnRequest) {
	c.w.Counts.Count(Accused)
	parsed, value := c.w.findPut(r, state.KindAccusation)
	c.accusations = append(c.accusations, accusation{parsed.Address, parsed.Accuser, c.w.Now()})
	said, err := state.DecodeAccusation(value)
	if err != nil {
		c.fail("P4", "%s wrote an accusation that nobody can read: %v", accuser.id, err)
		return
	}
	if kv := c.truth.getKey(c.w.keys.Node(parsed.Address)); kv != nil {
		if record, err := state.DecodeRecord(kv.Value); err == nil && record.RoundTripMS > 0 {
			c.w.Counts.Count(FarAccused)
		}
	}
	// A process that starts at an occupied address accuses the occupant, which may be its own record after an
	// out-of-band change.
	if h := c.w.hostAt(parsed.Address); h != nil && h.roles.electionOnly {
		c.fail("P4", "%s accuses %s, which has no server to watch", accuser.id, parsed.Address)
	}
	if p := c.livingProcess(parsed.Address, said.Incarnation); p != nil && p != accuser && p.host.refused < 0 {
		c.fail("P4", "%s was accused, though it lives and its address refused nobody", p.id)
	}
}

// checkRemovals checks every removal that was executed. A living member may be removed only if it refused connections
// and could not answer the accusation.
func (c *checks) checkRemovals(accuser *process, r *pb.TxnRequest) {
	node := c.w.findDelete(r, state.KindNode)
	incarnation := int64(0)
	for _, cmp := range r.Compare {
		if string(cmp.Key) == c.w.keys.Node(node.Address) {
			incarnation = cmp.GetCreateRevision()
		}
	}
	p := c.livingProcess(node.Address, incarnation)
	if p == nil || p == accuser {
		c.w.Counts.Count(DeadRemoved)
		return
	}
	c.w.Counts.Count(LivingRemoved)
	at := time.Duration(-1)
	for _, a := range c.accusations {
		if a.address == node.Address && a.accuser == accuser.id {
			at = a.at
		}
	}
	switch h := p.host; {
	case at < 0 || !h.wasHindered(at):
		c.fail("P4", "%s was removed, though it lives and reaches etcd", p.id)
	case h.refused < at-evidenceAge:
		c.fail("P4", "%s was removed, though its address refused nobody", p.id)
	}
}

// lostWatch is the loss of a watcher, after which etcd has to confirm the session.
type lostWatch struct {
	s  *etcdsession.Session
	at time.Duration // requests sent from then on can confirm it
	by time.Duration // the deadline for that
}

// recordLostWatcher is called when a process learns that it lost a watcher. Its session must then be confirmed in
// time.
func (c *checks) recordLostWatcher(p *process) {
	s, view := p.session(), p.registered.Mirror.Snapshot()
	if s == nil || view == nil {
		return
	}
	within := suspicion.ConfirmWithin(suspicion.DefaultGracePeriod, view.Member(p.host.address))
	c.mu.Lock()
	defer c.mu.Unlock()
	within = max(within, etcdsession.Slowdown*p.facts.round) // a session gives a slow round more time
	c.w.Counts.Count(Suspected)
	p.facts.lostWatcher = c.w.Now()
	if h := p.host; h.resumedAt >= 0 && c.w.Now()-h.resumedAt < c.w.ttl {
		return // by its own clocks the last round took as long as it stood still
	}
	d := lostWatch{s: s, at: c.w.Now(), by: c.w.Now() + c.w.longestTrueTime(within)}
	p.facts.lost = append(p.facts.lost, d)
	c.w.After(d.by-d.at, func() {}) // its claims are checked at that time
}

// recordConfirmedRound is called when etcd has answered in full a renewal round that began at began.
func (c *checks) recordConfirmedRound(p *process, began time.Duration) {
	p.facts.lost = slices.DeleteFunc(p.facts.lost, func(d lostWatch) bool { return began >= d.at })
	if n := len(p.facts.lost); n > 1 {
		p.facts.lost = p.facts.lost[n-1:] // a claim that was confirmed meanwhile remembers the last one
	}
}

// recordBlindWatch is called before a process's watch, or with next the one after it, stops reporting anything.
func (c *checks) recordBlindWatch(p *process, next bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.facts.blind = 1
	if next {
		p.facts.blind = 2 // that one, and the one after it
	}
}

// recordWatchOpen is called when a process opens a watch. The opening takes the given time, or is lost.
func (c *checks) recordWatchOpen(p *process, takes time.Duration, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.facts.blind = max(0, p.facts.blind-1); lost {
		p.facts.blind = max(1, p.facts.blind)
	}
	p.facts.waits = max(p.facts.waits, c.w.Now()+takes)
}

// minStreamAge is the least age of a stream that counts, because a stream that breaks often is reopened with
// growing delays.
const minStreamAge = 2 * time.Second

// dialTime is longer than a few refused connections take, with the pauses between them.
const dialTime = 100 * time.Millisecond

// recordCrash is called before a process is killed while its kernel survives. It checks later that an unhindered
// watcher had the process removed in time. The caller holds w.Mu.
func (c *checks) recordCrash(p *process) {
	w, view := c.w, p.registered.Mirror.Snapshot()
	if !w.crashDetection || view == nil || w.faults.slow > 0 {
		return
	}
	m := view.Member(p.host.address)
	began, incarnation, born := w.Now(), c.lastIncarnation(p), p.host.startCount
	if m == nil || m.Incarnation != incarnation || suspicion.LeftToLease(m) || !p.host.link.State().IsHealthy() {
		return
	}
	for _, s := range p.node.watchers {
		watcher, session, trip := s.from, s.from.session(), 2*s.from.host.link.Distance+2*maxHop
		if !s.proved || s.goodbye || began-s.opened < minStreamAge || session == nil ||
			!watcher.mayRemove(p, session, began) {
			continue
		}
		within := dialTime + 2*trip + suspicion.GracePeriod(suspicion.DefaultGracePeriod, trip, m)
		w.After(within, func() {
			// If the watcher was hindered meanwhile, the check does not apply. Nor does it if another process
			// started at the address, which has time to take it over itself.
			swift := w.faults.slow == 0 && max(w.faults.slowUntil, w.faults.cutUntil, p.host.resumedAt) < began
			if p.host.startCount == born && swift && watcher.mayRemove(p, session, began) {
				c.checkNoticed(p, watcher, incarnation, began)
			}
		})
	}
}

// mayRemove reports whether nothing keeps the process, now or since then, from having other removed on that
// session. If etcd denies it the deletion of a candidate's key, the lease decides.
func (p *process) mayRemove(other *process, session *etcdsession.Session, since time.Duration) bool {
	denied := p.host.link.State().Denied != "" || p.host.allowed > since
	return !p.dead.Load() && !p.stopRequested && p.host.reaches(other.host) && session.Valid() && !denied
}

// checkNoticed checks that a process killed at that time is no longer registered.
func (c *checks) checkNoticed(p, watcher *process, incarnation int64, killed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if watcher.host.wasHindered(killed-minStreamAge) || slices.Contains(c.taints, incarnation) ||
		slices.ContainsFunc(c.losses, func(t keyLoss) bool { return t.lease == watcher.facts.lease }) {
		return
	}
	if c.truth.keyExists(c.w.keys.Node(p.host.address), incarnation) {
		c.fail("P4", "%s was killed %v ago, %s watched it, and it is registered still", p.id, c.w.Now()-killed, watcher.id)
		return
	}
	c.w.Counts.Count(CrashNoticed)
}
