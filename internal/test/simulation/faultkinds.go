package simulation

import (
	"time"
)

// faultKind is one kind of fault, or of request by a user.
type faultKind struct {
	weight int
	name   string
	begin  func(w *world, h *host)
}

// drawFault draws a fault by its weight, and returns its index.
func (w *world) drawFault() int {
	sum := 0
	for _, f := range w.catalogue {
		sum += f.weight
	}
	n := w.rand.IntN(sum)
	for i, f := range w.catalogue {
		if n -= f.weight; n < 0 {
			return i
		}
	}
	panic("simulation: the weights do not add up")
}

// allFaults returns all kinds of faults.
func allFaults() []faultKind {
	return []faultKind{
		{8, "one request is lost, is not answered, or comes late", doomRequests},
		{4, "the same for two requests in a row", func(w *world, h *host) { doomRequests(w, h); doomRequests(w, h) }},
		{6, "cut off from etcd", cutEtcdLink},
		{4, "requests or answers of etcd lost", loseMessages},
		{3, "slow way to etcd", slowLink},
		{5, "frozen watch", freezeWatch},
		{4, "dead watch", silenceWatch},
		{3, "watch ended by etcd", func(_ *world, h *host) {
			if p := h.process; p != nil {
				p.conn.AbortWatches()
			}
		}},
		{3, "broken watch", func(w *world, h *host) {
			if p := h.process; p != nil {
				p.conn.BreakWatches()
			}
		}},
		{2, "compaction", func(w *world, _ *host) { w.etcd.Compact() }},
		{3, "compaction behind a frozen watch", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.freezeWatchFor(h, d)
			w.after(d*9/10, func() { w.etcd.Compact() })
		}},
		{6, "paused process", pauseProcess},
		{2, "paused in a renewal", pauseInRenewal},
		{2, "paused in the renewal that a lost watcher asks for", pauseInSuspicion},
		{2, "suspended machine", suspendMachine},
		{2, "stepped wall clock", stepWall},
		{2, "busy machine", busyMachine},
		{6, "crash", crashProcess},
		{2, "lost host", loseHost},
		{4, "stop", stopAndStart},
		{2, "stop, and cut off from etcd", func(w *world, h *host) {
			stopAndStart(w, h)
			w.after(w.drawBetween(0, 20*time.Millisecond), func() { w.cutEtcdFor(h, w.drawDuration(h)) })
		}},
		{5, "resignation", func(_ *world, h *host) {
			if h.process != nil {
				h.process.resign()
			}
		}},
		{3, "resignation that comes late", func(w *world, h *host) {
			w.doomNext(h, requestLeaveQueue, outcomeLate)
			w.doomNext(h, requestElectionChange, outcomeLate)
			if h.process != nil {
				h.process.resign()
			}
		}},
		{5, "request", requestResignation},
		{3, "request, and those who give way are late", func(w *world, h *host) {
			for range 1 + w.rand.IntN(2) {
				w.doomNext(nil, requestLeaveQueue, outcomeLate)
			}
			requestResignation(w, h)
			if l := w.leadingProcess(); l != nil && w.drawChance(2) { // the request is void then
				w.after(w.drawBetween(0, 20*time.Millisecond), func() { crashProcess(w, l.host) })
			}
		}},
		{3, "etcd elects another leader", electEtcd},
		{3, "etcd is away", stopEtcd},
		{3, "a member of etcd stands still", stopMember},
		{3, "the member that leads etcd stutters", stutterLeader},
		{3, "a member of etcd is cut off from the others", cutMember},
		{2, "etcd's lead moves", moveEtcdLeader},
		{4, "etcd revokes leases that were renewed", revokeEarly},
		{5, "hand", changeKeysOutOfBand},
		{4, "hand, and the watch frozen", func(w *world, h *host) {
			w.freezeWatchFor(h, w.drawBetween(0, w.ttl))
			changeKeysOutOfBand(w, h)
		}},
		{5, "hand on the shards", changeShardsOutOfBand},
		{3, "hand on the shards, and the watch frozen", func(w *world, h *host) {
			w.freezeWatchFor(h, w.drawBetween(0, w.ttl))
			changeShardsOutOfBand(w, h)
		}},
		{3, "paused in the middle of planning", pauseInPlanning},
		{3, "network between two hosts cut one way", cutHosts},
		{2, "slow network between nodes", slowNetwork},
		{2, "shard map or report that comes late", func(w *world, h *host) {
			w.doomNext(nil, pickOne(w, []requestKind{requestPlan, requestReport}), outcomeLate)
			if w.drawChance(2) {
				stopAndStart(w, h)
			}
		}},
		{6, "denied candidacy", denyCandidates},
		{3, "outside candidate", addOutsider},
		{2, "outside candidate, and the watch frozen", func(w *world, h *host) {
			w.freezeWatchFor(h, w.drawBetween(0, w.ttl))
			addOutsider(w, h)
		}},
		{4, "refusing address", refuseConnections},
		{3, "broken streams", breakStreams},
		{2, "silent address", silenceHost},
		{3, "slow, then cut off", slowThenCut},
		{3, "refusing and cut off", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.refuseConnectionsFor(h, d)
			w.cutEtcdFor(h, d)
		}},
		{2, "refusing, and the others' watches frozen", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.refuseConnectionsFor(h, d)
			for _, x := range w.hosts {
				if x != h {
					w.freezeWatchFor(x, min(d, w.drawBetween(0, w.ttl/3)))
				}
			}
		}},
		{2, "refusing, and cut off in a renewal", func(w *world, h *host) {
			w.faults.addTrigger(faultTrigger{moment: momentExecuted + faultMoment(requestRoundRead), host: h, begin: func() {
				w.refuseConnectionsFor(h, w.ttl)
				w.loseMessagesFor(h, w.drawDuration(h), true, false)
			}})
		}},
		{2, "refusing and paused", func(w *world, h *host) {
			d := w.drawDuration(h)
			w.refuseConnectionsFor(h, d)
			w.pauseFor(h, d)
		}},
	}
}

// drawDuration draws the duration of a fault: a moment, a long time, or a time that ends around an instant that
// matters to the host.
func (w *world) drawDuration(h *host) time.Duration {
	switch w.rand.IntN(6) {
	case 0:
		return w.drawBetween(0, 50*time.Millisecond)
	case 1, 2:
		return w.drawBetween(0, w.ttl/2)
	case 3:
		return w.drawBetween(w.ttl/2, 2*w.ttl)
	}
	if h.process == nil || h.process.session() == nil {
		return w.drawBetween(0, w.ttl)
	}
	s := h.process.session()
	around := s.TimeLeft() // until its deadline
	if w.drawChance(2) {
		for _, l := range w.etcd.Leases() {
			if l.ID == int64(s.ID()) {
				around = time.Until(l.Ends)
			}
		}
	}
	return max(around+w.drawBetween(-20*time.Millisecond, 20*time.Millisecond), 0)
}

// noteFault writes to the transcript a fault of a host, or with nil a fault of no particular host.
func (w *world) noteFault(h *host, format string, args ...any) {
	switch {
	case h == nil:
		w.log.addLine("FAULT "+format, args...)
	case h.process != nil:
		w.log.addProcessLine(h.process, "FAULT "+format, args...)
	default:
		w.log.appendLine(h.address, "FAULT "+format, args...)
	}
}
