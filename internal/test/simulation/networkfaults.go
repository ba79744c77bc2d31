package simulation

import "time"

func doomRequests(w *world, h *host) {
	d := plannedOutcome{kind: pickOne(w, []requestKind{requestRead, requestGrant, requestRenew, requestRoundRead,
		requestRevoke, requestRegister, requestRegister, requestRecord,
		requestCampaign, requestCampaign, requestCampaign, requestQueueRead, requestLeaveQueue, requestLeaveQueue,
		requestLeaveQueue, requestElectionChange, requestElectionChange, requestGuardedWrite, requestGuardedWrite,
		requestAccuse, requestRemove, requestRefute, requestResign, requestPlan, requestPlan, requestReport,
		requestReport}), skip: w.rand.IntN(3)}
	if !w.drawChance(3) {
		d.host, d.skip = h, w.rand.IntN(2)
	}
	d.outcome = pickOne(w, []requestOutcome{outcomeLost, outcomeUnanswered, outcomeUnanswered, outcomeLate, outcomeLate})
	d.after = w.drawBetween(0, w.ttl)
	if w.drawChance(3) {
		d.after = w.drawBetween(0, 2*w.ttl)
	}
	who := "anybody's"
	if d.host != nil {
		who = "its"
	}
	w.noteFault(h, "%s next %s (after %d others) %s", who, d.kind, d.skip, d.outcome)
	w.faults.addOutcome(d)
}

// doomNext sets the outcome of the next request of that kind.
func (w *world) doomNext(h *host, k requestKind, f requestOutcome) {
	w.faults.addOutcome(plannedOutcome{kind: k, host: h, outcome: f, after: w.drawBetween(0, w.ttl)})
	w.noteFault(h, "the next %s %s", k, f)
}

func cutEtcdLink(w *world, h *host) { w.cutEtcdFor(h, w.drawDuration(h)) }

// cutEtcdFor cuts the connection to etcd. Messages wait and arrive afterwards. Some watches break at once.
func (w *world) cutEtcdFor(h *host, d time.Duration) {
	w.noteFault(h, "is cut off from etcd for %v", d)
	h.changeLink(func(l *link) { l.held = true })
	if h.process != nil && w.drawChance(3) { // the client's keepalive notices
		p := h.process
		w.after(w.drawBetween(0, d), p.conn.BreakWatches)
	}
	w.faults.endAfter(d, func() {
		w.repairLink(h, func(l *link) { l.held = false })
	})
}

func loseMessages(w *world, h *host) {
	how := w.rand.IntN(3)
	w.loseMessagesFor(h, w.drawDuration(h), how != 1, how != 2)
}

// loseMessagesFor loses requests, answers, or both.
func (w *world) loseMessagesFor(h *host, d time.Duration, requests, answers bool) {
	w.noteFault(h, "loses requests (%t) or answers (%t) of etcd for %v", requests, answers, d)
	h.changeLink(func(l *link) { l.noRequests, l.noAnswers = requests, answers })
	w.faults.endAfter(d, func() {
		w.repairLink(h, func(l *link) { l.noRequests, l.noAnswers = false, false })
	})
}

// repairLink ends a fault of the connection to etcd.
func (w *world) repairLink(h *host, change func(*link)) {
	// Messages that are under way still take their time.
	h.markHinderedUntil(w.now() + 2*h.link().slow + h.link().busy)
	w.noteFault(h, "is over")
	h.changeLink(change)
}

func slowLink(w *world, h *host) {
	d, slow := w.drawDuration(h), pickOne(w, []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, w.ttl / 5})
	w.noteFault(h, "its way to etcd takes up to %v longer for %v", slow, d)
	h.changeLink(func(l *link) { l.slow = slow })
	w.faults.endAfter(d, func() { w.repairLink(h, func(l *link) { l.slow = 0 }) })
}

// slowThenCut delays etcd's answers until a renewal has been answered, and then cuts the connection for long.
func slowThenCut(w *world, h *host) {
	slow := w.drawBetween(0, w.ttl/5)
	w.noteFault(h, "its way to etcd takes up to %v longer, and is cut at its next renewal", slow)
	h.changeLink(func(l *link) { l.slow = slow })
	w.faults.endAfter(w.ttl, func() { w.repairLink(h, func(l *link) { l.slow = 0 }) })
	w.faults.addTrigger(faultTrigger{moment: momentAnswered + faultMoment(requestRoundRead), host: h,
		begin: func() { w.cutEtcdFor(h, w.ttl+w.drawBetween(0, w.ttl)) }})
}

func freezeWatch(w *world, h *host) { w.freezeWatchFor(h, w.drawDuration(h)) }

func (w *world) freezeWatchFor(h *host, d time.Duration) {
	w.noteFault(h, "its watch delivers nothing for %v", d)
	h.changeLink(func(l *link) { l.frozen = true })
	w.faults.endAfter(d, func() { w.repairLink(h, func(l *link) { l.frozen = false }) })
}

// silenceWatch lets a watch deliver nothing any more without any error; or the next one, after it was opened.
func silenceWatch(w *world, h *host) {
	p := h.process
	if p == nil {
		return
	}
	next := w.drawChance(2)
	w.noteFault(h, "its watch is dead (the next one: %t)", next)
	w.checks.recordBlindWatch(p, next)
	p.conn.SilenceWatches(next)
}

func refuseConnections(w *world, h *host) { w.refuseConnectionsFor(h, w.drawDuration(h)) }

// refuseConnectionsFor closes the host's port to others.
func (w *world) refuseConnectionsFor(h *host, d time.Duration) {
	w.noteFault(h, "refuses connections for %v", d)
	h.refuses = true
	breakStreams(w, h)
	w.faults.endAfter(d, func() { h.refuses = false })
}

// breakStreams resets the connections between this host and its watchers.
func breakStreams(w *world, h *host) {
	if p := h.process; p != nil {
		w.noteFault(h, "the connections of its watchers break")
		for _, s := range append([]*watchStream(nil), p.node.watchers...) {
			s.endStream(false, w.drawChance(4), false)
		}
	}
}

func silenceHost(w *world, h *host) {
	d := w.drawDuration(h)
	w.noteFault(h, "nobody reaches its address for %v", d)
	h.silent = true
	breakStreams(w, h)
	w.faults.endAfter(d, func() { h.silent = false })
}

// cutHosts keeps one host from reaching another one, which may still reach it.
func cutHosts(w *world, h *host) {
	there, d := pickOne(w, w.hosts), w.drawDuration(h)
	if there == h {
		return
	}
	w.noteFault(h, "does not reach %s for %v", there.address, d)
	h.cut[there] = true
	if p := h.process; p != nil {
		for _, s := range append([]*watchStream(nil), p.node.watching...) {
			if s.to.host == there {
				s.endStream(false, w.drawChance(2), false)
			}
		}
	}
	w.faults.endAfter(d, func() { delete(h.cut, there) })
}

func slowNetwork(w *world, h *host) {
	d := w.drawDuration(h)
	w.faults.slow = pickOne(w, []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second})
	w.noteFault(nil, "ways between nodes take up to %v longer, for %v", w.faults.slow, d)
	w.faults.endAfter(d, func() { w.faults.slow, w.faults.slowUntil = 0, w.now() })
}
