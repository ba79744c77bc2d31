package simulation

import (
	"time"
)

func electEtcd(w *world, _ *host) {
	w.note(nil, "etcd elects another leader: every lease gets another TTL")
	w.etcd.Elect(w.rand.IntN(w.members))
	for _, h := range w.hosts {
		if h.process != nil && w.chance(2) {
			h.process.conn.Break()
		}
	}
	w.goAway(w.between(0, time.Second))
}

func etcdAway(w *world, h *host) { w.goAway(w.duration(h)) }

// goAway makes etcd unavailable for d. No lease expires meanwhile, and each has a whole TTL afterwards.
func (w *world) goAway(d time.Duration) {
	if w.faults.away {
		return
	}
	w.note(nil, "etcd is away for %v", d)
	w.alter(func() { w.faults.away = true })
	w.etcd.Away(true)
	w.faults.last(d, func() {
		w.note(nil, "etcd is back")
		w.alter(func() { w.faults.away = false })
		for _, h := range w.hosts {
			h.hinder()
		}
		w.etcd.Away(false)
	})
}

// sickFor applies a fault to one of several members of etcd for d. The others continue once they have a leader.
func (w *world) sickFor(d time.Duration, index int, set func(member int, on bool)) {
	w.alter(func() { w.faults.sick++ })
	set(index, true)
	w.faults.last(d, func() {
		w.note(nil, "member %d of etcd is well again", index)
		set(index, false)
		w.alter(func() { w.faults.sick-- })
		for _, h := range w.hosts { // requests to it may still be waiting
			h.hinderUntil(w.now() + requestTimeout)
		}
	})
}

// leading returns the member that leads etcd, or a random one if none does.
func (w *world) leading() int {
	if l := w.etcd.Leader(); l >= 0 {
		return l
	}
	return w.rand.IntN(w.members)
}

func stopMember(w *world, h *host) {
	member := w.leading()
	if w.chance(3) {
		member = w.rand.IntN(w.members)
	}
	w.stopFor(member, w.duration(h))
}

// stopFor stops a member of etcd for d. When it continues, it answers the requests that arrived meanwhile
// before it learns that another member leads.
func (w *world) stopFor(member int, d time.Duration) {
	if w.members == 1 {
		w.goAway(d)
		return
	}
	w.note(nil, "member %d of etcd stands still for %v", member, d)
	w.sickFor(d, member, w.etcd.Stop)
}

// stutter stops the leader of etcd until another one has been elected, and again shortly after it continues.
func stutter(w *world, _ *host) {
	member, first := w.leading(), w.between(time.Second, 2*w.ttl)
	w.stopFor(member, first)
	w.after(first+w.between(0, 100*time.Millisecond), func() {
		if !w.faults.ended() && !w.faults.away {
			w.stopFor(member, w.between(0, 2*w.ttl))
		}
	})
}

func cutMember(w *world, h *host) {
	if w.members == 1 {
		w.goAway(w.duration(h))
		return
	}
	member, d := w.rand.IntN(w.members), w.duration(h)
	if w.chance(2) {
		member = w.leading()
	}
	w.note(nil, "member %d of etcd is cut off from the others for %v", member, d)
	w.sickFor(d, member, w.etcd.Cut)
}

func moveLead(w *world, _ *host) {
	w.note(nil, "etcd's lead moves")
	w.etcd.Transfer(w.rand.IntN(w.members))
}

// deny lets etcd refuse the candidates' keys of one host, of some or of all.
func deny(w *world, h *host) {
	d := w.duration(h)
	others := w.rand.IntN(3)
	for _, x := range w.hosts {
		if x == h || others == 1 && w.chance(2) || others == 2 {
			w.denyFor(x, max(d+w.between(-50*time.Millisecond, 50*time.Millisecond), 0))
		}
	}
}

func (w *world) denyFor(h *host, d time.Duration) {
	w.note(h, "etcd denies its candidacy for %v", d)
	h.set(func(l *link) { l.denied = true })
	w.faults.last(d, func() {
		w.note(h, "etcd allows its candidacy")
		h.set(func(l *link) { l.denied = false })
		h.allowed = w.now()
	})
}
