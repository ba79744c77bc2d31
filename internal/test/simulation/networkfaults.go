package simulation

import "time"

func doomed(w *world, h *host) {
	d := doom{kind: pick(w, []kind{toRead, toGrant, toRenew, toCheck, toRevoke, toRegister, toRegister, toRecord,
		toCampaign, toCampaign, toCampaign, toLookAhead, toLeave, toLeave, toLeave, toChange, toChange, toWrite, toWrite,
		toAccuse, toRemove, toRefute, toAsk, toPlan, toPlan, toReport, toReport}), skip: w.rand.IntN(3)}
	if !w.chance(3) {
		d.host, d.skip = h, w.rand.IntN(2)
	}
	d.outcome = pick(w, []outcome{lost, unanswered, unanswered, late, late})
	d.after = w.between(0, w.ttl)
	if w.chance(3) {
		d.after = w.between(0, 2*w.ttl)
	}
	who := "anybody's"
	if d.host != nil {
		who = "its"
	}
	w.note(h, "%s next %s (after %d others) %s", who, d.kind, d.skip, d.outcome)
	w.faults.doom(d)
}

// doomNext sets the outcome of the next request of that kind.
func (w *world) doomNext(h *host, k kind, f outcome) {
	w.faults.doom(doom{kind: k, host: h, outcome: f, after: w.between(0, w.ttl)})
	w.note(h, "the next %s %s", k, f)
}

func cutOff(w *world, h *host) { w.cutFor(h, w.duration(h)) }

// cutFor cuts the connection to etcd. Messages wait and arrive afterwards. Some watches break at once.
func (w *world) cutFor(h *host, d time.Duration) {
	w.note(h, "is cut off from etcd for %v", d)
	h.set(func(l *link) { l.held = true })
	if h.process != nil && w.chance(3) { // the client's keepalive notices
		p := h.process
		w.after(w.between(0, d), p.conn.Break)
	}
	w.faults.last(d, func() {
		w.repaired(h, func(l *link) { l.held = false })
	})
}

func loseSome(w *world, h *host) {
	how := w.rand.IntN(3)
	w.loseFor(h, w.duration(h), how != 1, how != 2)
}

// loseFor loses requests, answers, or both.
func (w *world) loseFor(h *host, d time.Duration, requests, answers bool) {
	w.note(h, "loses requests (%t) or answers (%t) of etcd for %v", requests, answers, d)
	h.set(func(l *link) { l.noRequests, l.noAnswers = requests, answers })
	w.faults.last(d, func() {
		w.repaired(h, func(l *link) { l.noRequests, l.noAnswers = false, false })
	})
}

// repaired ends a fault of the connection to etcd.
func (w *world) repaired(h *host, change func(*link)) {
	// Messages that are under way still take their time.
	h.hinderUntil(w.now() + 2*h.link().slow + h.link().busy)
	w.note(h, "is over")
	h.set(change)
}

func slowLink(w *world, h *host) {
	d, slow := w.duration(h), pick(w, []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, w.ttl / 5})
	w.note(h, "its way to etcd takes up to %v longer for %v", slow, d)
	h.set(func(l *link) { l.slow = slow })
	w.faults.last(d, func() { w.repaired(h, func(l *link) { l.slow = 0 }) })
}

// slowThenCut delays etcd's answers until a renewal has been answered, and then cuts the connection for long.
func slowThenCut(w *world, h *host) {
	slow := w.between(0, w.ttl/5)
	w.note(h, "its way to etcd takes up to %v longer, and is cut at its next renewal", slow)
	h.set(func(l *link) { l.slow = slow })
	w.faults.last(w.ttl, func() { w.repaired(h, func(l *link) { l.slow = 0 }) })
	w.faults.at(trigger{moment: gotAnswer + moment(toCheck), host: h,
		begin: func() { w.cutFor(h, w.ttl+w.between(0, w.ttl)) }})
}

func freezeWatch(w *world, h *host) { w.freezeFor(h, w.duration(h)) }

func (w *world) freezeFor(h *host, d time.Duration) {
	w.note(h, "its watch delivers nothing for %v", d)
	h.set(func(l *link) { l.frozen = true })
	w.faults.last(d, func() { w.repaired(h, func(l *link) { l.frozen = false }) })
}

// deadWatch lets a watch deliver nothing any more without any error; or the next one, after it was opened.
func deadWatch(w *world, h *host) {
	p := h.process
	if p == nil {
		return
	}
	next := w.chance(2)
	w.note(h, "its watch is dead (the next one: %t)", next)
	w.checks.blinds(p, next)
	p.conn.Silence(next)
}

func refuse(w *world, h *host) { w.refuseFor(h, w.duration(h)) }

// refuseFor closes the host's port to others.
func (w *world) refuseFor(h *host, d time.Duration) {
	w.note(h, "refuses connections for %v", d)
	h.refuses = true
	breakStreams(w, h)
	w.faults.last(d, func() { h.refuses = false })
}

// breakStreams resets the connections between this host and its watchers.
func breakStreams(w *world, h *host) {
	if p := h.process; p != nil {
		w.note(h, "the connections of its watchers break")
		for _, s := range append([]*stream(nil), p.node.watchers...) {
			s.end(false, w.chance(4), false)
		}
	}
}

func silence(w *world, h *host) {
	d := w.duration(h)
	w.note(h, "nobody reaches its address for %v", d)
	h.silent = true
	breakStreams(w, h)
	w.faults.last(d, func() { h.silent = false })
}

// cutBetween keeps one host from reaching another one, which may still reach it.
func cutBetween(w *world, h *host) {
	there, d := pick(w, w.hosts), w.duration(h)
	if there == h {
		return
	}
	w.note(h, "does not reach %s for %v", there.address, d)
	h.cut[there] = true
	if p := h.process; p != nil {
		for _, s := range append([]*stream(nil), p.node.watching...) {
			if s.to.host == there {
				s.end(false, w.chance(2), false)
			}
		}
	}
	w.faults.last(d, func() { delete(h.cut, there) })
}

func slowNetwork(w *world, h *host) {
	d := w.duration(h)
	w.faults.slow = pick(w, []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second})
	w.note(nil, "ways between nodes take up to %v longer, for %v", w.faults.slow, d)
	w.faults.last(d, func() { w.faults.slow, w.faults.slowUntil = 0, w.now() })
}
