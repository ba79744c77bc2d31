package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/txn"
)

func electEtcd(w *world, _ *host) {
	w.note(nil, "etcd elects another leader: every lease gets another TTL")
	w.etcd.elect()
	for _, h := range w.hosts {
		if h.process != nil && w.chance(2) {
			w.etcd.breakOff(h.process, errBroke)
		}
	}
	w.away(w.between(0, time.Second))
}

func etcdAway(w *world, h *host) { w.away(w.duration(h)) }

// away: etcd answers nobody; no lease runs out meanwhile, and each has a new TTL after.
func (w *world) away(d time.Duration) {
	if w.etcd.away {
		return
	}
	w.note(nil, "etcd is away for %v", d)
	w.etcd.away = true
	w.faults.last(d, func() {
		w.note(nil, "etcd is back")
		w.etcd.away = false
		w.etcd.elect()
		for _, h := range w.hosts {
			h.hinder()
		}
		w.etcd.free()
	})
}

// revokeEarly: a leader of etcd that stood still, and was deposed meanwhile, goes on and has leases
// revoked that its successor has renewed. Some processes are cut off just then.
func revokeEarly(w *world, h *host) {
	if w.etcd.away {
		return
	}
	w.note(nil, "etcd elects another leader, the old one stands still")
	known := w.etcd.term
	w.etcd.elect()
	if w.chance(2) {
		w.cutFor(h, w.duration(h), true, w.chance(2))
	}
	w.after(w.between(0, w.ttl), func() {
		e := w.etcd
		if e.away || w.faults.over {
			return
		}
		w.note(nil, "the old leader of etcd goes on")
		by := early
		if w.chance(3) {
			by = hand // it steps down in the middle of it: not all of them are revoked
		}
		for _, l := range slices.Clone(e.leases) {
			if l.term > known || l.ends > w.now+w.ttl {
				continue // granted since; or an outside candidate's
			}
			if by == hand && w.chance(2) {
				break
			}
			w.after(w.between(0, 5*time.Millisecond), func() { e.dropEarly(l, by) })
		}
	})
}

func (e *etcd) dropEarly(l *lease, by by) {
	if !slices.Contains(e.leases, l) {
		return
	}
	e.w.note(nil, "etcd revokes lease %x early", l.id)
	e.w.checks.taken = append(e.w.checks.taken, taken{lease: l.id, at: e.w.now, by: by})
	e.author = cause{by: by}
	e.drop(l)
}

// handFrom is somebody who writes to etcd past everybody.
func handFrom(w *world, h *host) {
	p, e := h.process, w.etcd
	if p == nil || p.keeper.session == nil || e.away {
		return
	}
	lease := p.keeper.session.lease
	e.author = cause{by: hand}
	key := pick(w, []string{w.keys.Candidate(lease), w.keys.Candidate(lease), w.keys.Node(h.address), w.keys.Acting()})
	switch w.IntN(4) {
	case 0:
		w.note(h, "somebody revokes its lease %x", lease)
		if _, err := e.revoke(nil, lease); err == nil {
			w.checks.taken = append(w.checks.taken, taken{lease: lease, at: w.now, by: hand})
		}
	case 1:
		kv := e.get(key)
		if kv == nil || key == w.keys.Acting() {
			return
		}
		w.note(h, "somebody alters %s", key)
		if key == w.keys.Node(h.address) {
			w.checks.taints = append(w.checks.taints, kv.CreateRevision)
		}
		onto := int64(0)
		if w.chance(2) {
			onto = kv.Lease
		}
		_, _ = e.execute(nil, txn.Txn{Then: []txn.Op{{Kind: txn.Put, Key: key, Value: "somebody", Lease: onto}}})
	default:
		w.note(h, "somebody deletes %s", key)
		_, _ = e.execute(nil, txn.Txn{Then: []txn.Op{{Kind: txn.Delete, Key: key}}})
	}
}

// deny has etcd refuse the candidates' keys of one host, of some or of all.
func deny(w *world, h *host) {
	d := w.duration(h)
	others := w.IntN(3)
	for _, x := range w.hosts {
		if x == h || others == 1 && w.chance(2) || others == 2 {
			w.denyFor(x, max(d+w.between(-50*time.Millisecond, 50*time.Millisecond), 0))
		}
	}
}

func (w *world) denyFor(h *host, d time.Duration) {
	w.note(h, "etcd denies its candidacy for %v", d)
	h.denied = true
	w.faults.last(d, func() {
		w.note(h, "etcd allows its candidacy")
		h.denied = false
	})
}

// outsider is a program that is no node and queues with concurrency.Election, or an
// operator's etcdctl elect: it is no member, leads when it is first, and leaves, or
// dies.
func outsider(w *world, _ *host) {
	e := w.etcd
	if e.away {
		return
	}
	a := e.grant()
	l := e.lease(a.lease)
	l.ends = w.now + 1000*w.ttl // it renews
	key := w.keys.Candidate(l.id)
	if w.chance(4) {
		key = w.keys.Queue() + fmt.Sprintf("stray/%d", l.id)
	}
	w.note(nil, "an outside candidate queues on lease %x", l.id)
	e.author = cause{}
	if _, err := e.execute(nil, txn.Txn{Then: []txn.Op{{Kind: txn.Put, Key: key, Value: "outside",
		Lease: l.id}}}); err != nil {
		return
	}
	w.faults.last(w.between(0, 2*w.ttl), func() {
		e.author = cause{}
		if w.chance(2) {
			w.note(nil, "the outside candidate on lease %x leaves", l.id)
			_, _ = e.revoke(nil, l.id)
			return
		}
		w.note(nil, "the outside candidate on lease %x dies", l.id)
		l.ends = w.now + w.between(0, w.ttl)
		e.watchOver(l)
	})
}
