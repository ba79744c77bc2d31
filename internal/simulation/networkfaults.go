package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/suspicion"
)

func doomed(w *world, h *host) {
	d := doom{kind: pick(w, []kind{toRead, toGrant, toRenew, toCheck, toRevoke, toRegister, toRegister, toRecord,
		toCampaign, toCampaign, toCampaign, toLookAhead, toLeave, toLeave, toLeave, toChange, toChange, toWrite, toWrite,
		toAccuse, toRemove, toRefute, toAsk, toPlan, toPlan, toReport, toReport}), skip: w.IntN(3)}
	if !w.chance(3) {
		d.host, d.skip = h, w.IntN(2)
	}
	d.delivery = pick(w, []delivery{neverSent, unanswered, unanswered, late, late})
	d.after = w.between(0, w.ttl)
	if w.chance(3) {
		d.after = w.between(0, 2*w.ttl)
	}
	who := "anybody's"
	if d.host != nil {
		who = "its"
	}
	w.note(h, "%s next %s (after %d others) %s", who, d.kind, d.skip,
		[...]string{"", "is lost", "will not be answered", "comes late"}[d.delivery])
	w.faults.deliveries = append(w.faults.deliveries, d)
}

// doomNext settles what becomes of the next request of that kind.
func (w *world) doomNext(h *host, k kind, f delivery) {
	w.faults.deliveries = append(w.faults.deliveries, doom{kind: k, host: h, delivery: f, after: w.between(0, w.ttl)})
	w.note(h, "the next %s comes late", k)
}

func cutOff(w *world, h *host) {
	how := w.IntN(4)
	w.cutFor(h, w.duration(h), how != 1, how != 2)
}

// cutFor loses requests, or answers, or both.
func (w *world) cutFor(h *host, d time.Duration, requests, answers bool) {
	w.note(h, "is cut off from etcd for %v (requests %t, answers %t)", d, requests, answers)
	h.link.noRequests, h.link.noAnswers = requests, answers
	if h.process != nil && w.chance(3) { // the client's keepalive notices
		p := h.process
		p.after(w.between(0, d), func() {
			if p.mirror.watch != nil {
				p.mirror.lost(errBroke)
			}
		})
	}
	w.faults.last(d, func() {
		h.link.noRequests, h.link.noAnswers = false, false
		w.repaired(h)
	})
}

// repaired: what is wrong with the way to etcd is over.
func (w *world) repaired(h *host) {
	h.hinder()
	w.note(h, "is over")
	w.etcd.free()
}

func slowLink(w *world, h *host) {
	d, slow := w.duration(h), pick(w, []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, w.ttl / 5})
	w.note(h, "its way to etcd takes up to %v longer for %v", slow, d)
	h.link.slow = slow
	w.faults.last(d, func() { w.fastAgain(h) })
}

// fastAgain: what is on its way still takes its time.
func (w *world) fastAgain(h *host) {
	h.lagged = max(h.lagged, w.now+2*h.link.slow)
	h.link.slow = 0
	w.repaired(h)
}

// slowThenCut: etcd's answers to a renewal take their time, and are the last for long.
func slowThenCut(w *world, h *host) {
	slow := w.between(0, w.ttl/5)
	w.note(h, "its way to etcd takes up to %v longer, and is cut at its next renewal", slow)
	h.link.slow = slow
	w.faults.last(w.ttl, func() { w.fastAgain(h) })
	w.faults.waiting = append(w.faults.waiting, trigger{moment: gotAnswer + moment(toCheck), host: h,
		begin: func() { w.cutFor(h, w.ttl+w.between(0, w.ttl), true, true) }})
}

func freezeWatch(w *world, h *host) { w.freezeFor(h, w.duration(h)) }

func (w *world) freezeFor(h *host, d time.Duration) {
	w.note(h, "its watch delivers nothing for %v", d)
	h.link.frozen = true
	w.faults.last(d, func() { h.link.frozen = false; w.repaired(h) })
}

// deadWatch: nothing comes through a watch any more, and nobody says so; or through the
// next one, once it was opened.
func deadWatch(w *world, h *host) {
	p := h.process
	switch {
	case p == nil:
	case p.mirror.watch == nil || w.chance(2):
		w.note(h, "its next watch will be dead")
		h.link.stillborn = true
		w.etcd.breakOff(p, errBroke)
		w.faults.last(w.ttl, func() { h.link.stillborn = false })
	default:
		w.note(h, "its watch is dead")
		p.mirror.watch.dead = true
	}
}

func refuse(w *world, h *host) { w.refuseFor(h, w.duration(h)) }

// refuseFor closes the host's port to others.
func (w *world) refuseFor(h *host, d time.Duration) {
	w.note(h, "refuses connections for %v", d)
	h.refuses = true
	breakStreams(w, h)
	w.faults.last(d, func() { h.refuses = false })
}

// breakStreams resets the connections between this host and others.
func breakStreams(w *world, h *host) {
	if p := h.process; p != nil {
		w.note(h, "the connections of its watchers break")
		for _, s := range append([]*stream(nil), p.detector.watchers...) {
			s.end(suspicion.Broke, false, w.chance(4))
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
