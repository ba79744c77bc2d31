package simulation

import (
	"time"
)

func electEtcd(w *world, _ *host) {
	w.noteFault(nil, "etcd elects another leader: every lease gets another TTL")
	w.etcd.Elect(w.rand.IntN(w.members))
	for _, h := range w.hosts {
		if h.process != nil && w.drawChance(2) {
			h.process.conn.BreakWatches()
		}
	}
	w.stopEtcdFor(w.drawBetween(0, time.Second))
}

func stopEtcd(w *world, h *host) { w.stopEtcdFor(w.drawDuration(h)) }

// stopEtcdFor makes etcd unavailable for d. No lease expires meanwhile, and each has a whole TTL afterwards.
func (w *world) stopEtcdFor(d time.Duration) {
	if w.faults.away {
		return
	}
	w.noteFault(nil, "etcd is away for %v", d)
	w.alter(func() { w.faults.away = true })
	w.etcd.SetDown(true)
	w.faults.endAfter(d, func() {
		w.noteFault(nil, "etcd is back")
		w.alter(func() { w.faults.away = false })
		for _, h := range w.hosts {
			h.markHindered()
		}
		w.etcd.SetDown(false)
	})
}

// breakMemberFor applies a fault to one of several members of etcd for d. The others continue once they have a leader.
func (w *world) breakMemberFor(d time.Duration, index int, set func(member int, on bool)) {
	w.alter(func() { w.faults.sick++ })
	set(index, true)
	w.faults.endAfter(d, func() {
		w.noteFault(nil, "member %d of etcd is well again", index)
		set(index, false)
		w.alter(func() { w.faults.sick-- })
		for _, h := range w.hosts { // requests to it may still be waiting
			h.markHinderedUntil(w.now() + requestTimeout)
		}
	})
}

// etcdLeader returns the member that leads etcd, or a random one if none does.
func (w *world) etcdLeader() int {
	if l := w.etcd.Leader(); l >= 0 {
		return l
	}
	return w.rand.IntN(w.members)
}

func stopMember(w *world, h *host) {
	member := w.etcdLeader()
	if w.drawChance(3) {
		member = w.rand.IntN(w.members)
	}
	w.stopMemberFor(member, w.drawDuration(h))
}

// stopMemberFor stops a member of etcd for d. When it continues, it answers the requests that arrived meanwhile
// before it learns that another member leads.
func (w *world) stopMemberFor(member int, d time.Duration) {
	if w.members == 1 {
		w.stopEtcdFor(d)
		return
	}
	w.noteFault(nil, "member %d of etcd stands still for %v", member, d)
	w.breakMemberFor(d, member, w.etcd.SetStopped)
}

// stutterLeader stops the leader of etcd until another one has been elected, and again shortly after it continues.
func stutterLeader(w *world, _ *host) {
	member, first := w.etcdLeader(), w.drawBetween(time.Second, 2*w.ttl)
	w.stopMemberFor(member, first)
	w.after(first+w.drawBetween(0, 100*time.Millisecond), func() {
		if !w.faults.isHealed() && !w.faults.away {
			w.stopMemberFor(member, w.drawBetween(0, 2*w.ttl))
		}
	})
}

func cutMember(w *world, h *host) {
	if w.members == 1 {
		w.stopEtcdFor(w.drawDuration(h))
		return
	}
	member, d := w.rand.IntN(w.members), w.drawDuration(h)
	if w.drawChance(2) {
		member = w.etcdLeader()
	}
	w.noteFault(nil, "member %d of etcd is cut off from the others for %v", member, d)
	w.breakMemberFor(d, member, w.etcd.SetCut)
}

func moveEtcdLeader(w *world, _ *host) {
	w.noteFault(nil, "etcd's lead moves")
	w.etcd.Transfer(w.rand.IntN(w.members))
}

// denyCandidates lets etcd refuse the candidates' keys of one host, of some or of all.
func denyCandidates(w *world, h *host) {
	d := w.drawDuration(h)
	others := w.rand.IntN(3)
	for _, x := range w.hosts {
		if x == h || others == 1 && w.drawChance(2) || others == 2 {
			w.denyCandidatesFor(x, max(d+w.drawBetween(-50*time.Millisecond, 50*time.Millisecond), 0))
		}
	}
}

func (w *world) denyCandidatesFor(h *host, d time.Duration) {
	w.noteFault(h, "etcd denies its candidacy for %v", d)
	h.changeLink(func(l *link) { l.denied = true })
	w.faults.endAfter(d, func() {
		w.noteFault(h, "etcd allows its candidacy")
		h.changeLink(func(l *link) { l.denied = false })
		h.allowed = w.now()
	})
}
