package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// inability is the reason why a member can neither send heartbeats nor reach etcd.
type inability int

const (
	able inability = iota
	standsStill
	cutOffFromAll
	diesWithHost
)

// inability returns the reason why the host's process can neither send heartbeats nor reach etcd now.
func (h *host) inability() inability {
	switch {
	case h.process == nil:
		return diesWithHost
	case h.standsStill():
		return standsStill
	case h.silent && h.link.State().CutOff:
		return cutOffFromAll
	}
	return able
}

// lastsSince reports whether the host's inability has lasted since then. The caller holds the checks' mu.
func (h *host) lastsSince(why inability, began time.Duration, born int) bool {
	switch {
	case h.startCount != born || h.inability() != why:
		return false
	case why == standsStill:
		return h.resumedAt < began
	case why == cutOffFromAll:
		return h.apart < began && h.reachable < began
	}
	return true
}

// The parts of the bound on the time until a silent member is removed that do not depend on the settings.
const (
	silenceCheck  = 300 * time.Millisecond // the watcher looks at its members regularly
	removalMargin = 300 * time.Millisecond
	// leavesWithin is the longest time from a heartbeat of a member to the goodbye of a watcher that is to watch another
	// one instead. A watcher that has heard no heartbeat since then does not leave.
	leavesWithin = 300 * time.Millisecond
)

// removalBound returns the time by which an unhindered watcher has removed a member that is silent from now on.
func (w *world) removalBound(watcher *host, m *state.Member) time.Duration {
	trip := watcher.roundTrips(1)
	gracePeriod := suspicion.GracePeriod(suspicion.DefaultGracePeriod, trip, m)
	accused := w.longestTrueTime(w.accusedAfter()) + silenceCheck + trip
	return max(w.longestTrueTime(w.proofByBeats()*waitFactor/10000),
		accused+max(gracePeriod, w.longestTrueTime(w.proofByRead()*waitFactor/10000))) + trip + 2*maxHop + removalMargin
}

// restsAtMost limits the time for which a member that refuted is left alone.
const restsAtMost = 2 * time.Minute

// expectRemoval is called when a member begins to be silent, or is about to die with its host. It checks later that an
// unhindered, armed watcher had it removed in time. The caller holds w.Mu.
func (c *checks) expectRemoval(h *host) {
	w, p := c.w, h.process
	if w.silence == 0 || p == nil || p.armer == nil || p.stopRequested {
		return
	}
	why := h.inability()
	if why == able {
		why = diesWithHost
	}
	view := p.registered.Mirror.Snapshot()
	if view == nil || view.Member(h.address) == nil || suspicion.LeftToLease(view.Member(h.address)) {
		return
	}
	began, incarnation, born := w.Now(), c.lastIncarnation(p), h.startCount
	for _, s := range p.node.watchers {
		watcher, session := s.from, s.from.session()
		if !s.proved || s.goodbye || !s.arms() || began-s.opened < minStreamAge || session == nil {
			continue
		}
		w.After(w.removalBound(watcher.host, view.Member(h.address)), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			leaves := s.goodbye && s.goodbyeAt < began+leavesWithin
			pair := watchPair{p, watcher}
			if !leaves && h.lastsSince(why, began, born) && c.hadToRemove(pair, session, began) {
				c.checkSilenceNoticed(pair, incarnation, began)
			}
		})
	}
}

// hadToRemove reports whether nothing kept an armed watcher from removing a member that has been silent since began.
// The caller holds c.mu.
func (c *checks) hadToRemove(pair watchPair, session *etcdsession.Session, began time.Duration) bool {
	w, watcher := c.w, pair.watcher
	last, armed := c.receipts[pair]
	swift := w.faults.slow == 0 && w.faults.slowUntil < began-minStreamAge
	return armed && last.at >= began-w.proofByBeats()/4 && last.at <= began+2*maxHop && swift && !watcher.dead.Load() &&
		!watcher.stopRequested && watcher.session() == session && session.Valid() &&
		!watcher.host.wasHindered(began-minStreamAge) && !watcher.host.wasDenied(began-minStreamAge) &&
		c.truth.keyExists(w.keys.Node(watcher.host.address), watcher.facts.incarnation) &&
		c.findLoss(watcher, session, watcher.facts.incarnation) == nil &&
		// Otherwise a heartbeat has arrived late.
		c.withdrawn[accusationKey(pair.watched.host.address, watcher)] < began &&
		(pair.watched.facts.refuted < 0 || w.Now()-pair.watched.facts.refuted > restsAtMost) &&
		c.countAccused() < leastHoldOff
}

// leastHoldOff is a number of accused members with which no watcher holds off.
const leastHoldOff = 3

// countAccused returns the number of members that are accused of silence.
func (c *checks) countAccused() int {
	accused := map[string]bool{}
	for key := range c.truth.held {
		if address, _, ok := c.w.parseSilentKey(key); ok {
			accused[address] = true
		}
	}
	return len(accused)
}

// checkSilenceNoticed checks that a member that has been silent since began is no longer registered.
func (c *checks) checkSilenceNoticed(pair watchPair, incarnation int64, began time.Duration) {
	if c.isTainted(incarnation) {
		return
	}
	if c.truth.keyExists(c.w.keys.Node(pair.watched.host.address), incarnation) {
		c.fail("P4", "%s has been silent for %v, %s watched it, and it is registered still", pair.watched.id,
			c.w.Now()-began, pair.watcher.id)
		return
	}
	c.w.Counts.Count(SilenceNoticed)
}
