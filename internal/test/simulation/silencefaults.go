package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/test/schedule"
)

// faultKinds returns the kinds of faults of the schedule. If members accuse others of silence, half of them are those
// that matter to it.
func (w *world) faultKinds() []faultKind {
	if w.silence > 0 && w.OneIn(2) {
		return silenceFaults()
	}
	return allFaults()
}

// silenceFaults returns the kinds of faults that only matter if members accuse others of silence.
func silenceFaults() []faultKind {
	return []faultKind{
		kind(8, "process paused around a silence time-out", func(w *world, h *host) { w.pauseFor(h, w.drawSilent(h)) }),
		kind(2, "machine suspended around a silence time-out", func(w *world, h *host) {
			w.suspendFor(h, w.drawSilent(h))
		}),
		kind(3, "two hosts apart", func(w *world, h *host) {
			there, d := w.drawOther(h), w.drawSilent(h)
			w.noteFault(h, "and %s cannot reach each other for %v", there.address, d)
			w.cutWay(h, there, d)
			w.cutWay(there, h, d)
		}),
		kind(4, "one way between two hosts cut", func(w *world, h *host) {
			there, d := w.drawOther(h), w.drawSilent(h)
			if w.OneIn(2) {
				h, there = there, h
			}
			w.noteFault(h, "its messages do not reach %s for %v", there.address, d)
			w.cutWay(h, there, d)
		}),
		kind(3, "all watchers of a member apart from it", func(w *world, h *host) {
			d, ways := w.drawSilent(h), w.Rand.IntN(3)
			for _, there := range h.watchers() {
				w.noteFault(h, "and its watcher %s cannot reach each other for %v", there.address, d)
				if ways != 0 {
					w.cutWay(h, there, d)
				}
				if ways != 1 {
					w.cutWay(there, h, d)
				}
			}
		}),
		kind(3, "all watchers of a member paused", func(w *world, h *host) {
			d := w.drawSilent(h)
			for _, there := range h.watchers() {
				w.pauseFor(there, d+w.Between(-20*time.Millisecond, 20*time.Millisecond))
			}
			if w.OneIn(2) {
				w.pauseFor(h, w.drawSilent(h))
			}
		}),
		kind(5, "host cut off from everything", func(w *world, h *host) { w.isolate(h, w.drawSilent(h)) }),
		kind(2, "nothing reaches a host", func(w *world, h *host) {
			d := w.drawSilent(h)
			w.noteFault(h, "nothing reaches it for %v", d)
			h.link.CutOff(d)
			for _, there := range w.hosts {
				if there != h {
					w.cutWay(there, h, d)
				}
			}
		}),
		kind(2, "host cut off from everything, and its process paused", func(w *world, h *host) {
			w.isolate(h, w.drawSilent(h))
			w.pauseFor(h, w.drawSilent(h))
		}),
		kind(2, "host cut off from everything, with its member of etcd", func(w *world, h *host) {
			d := w.drawSilent(h)
			w.isolate(h, d)
			w.StopMember(h.link.Member, d)
		}),
		kind(3, "watcher loses its lease while it accuses", func(w *world, _ *host) {
			w.faults.addTrigger(faultTrigger{moment: w.drawAccusing(), after: w.drawSoon(), beginAt: func(p *process) {
				if s := p.session(); s != nil && !w.EtcdDown() {
					w.noteFault(p.host, "its lease is revoked out of band while it accuses")
					w.revokeLease(byOutOfBand, int64(s.ID()))
				}
			}})
			w.pauseFor(w.drawHost(), w.drawSilent(nil))
		}),
		kind(3, "watcher killed while it accuses", func(w *world, _ *host) {
			w.faults.addTrigger(faultTrigger{moment: w.drawAccusing(), after: w.drawSoon(), beginAt: func(p *process) {
				if !p.dead.Load() {
					crashProcess(w, p.host)
				}
			}})
			w.pauseFor(w.drawHost(), w.drawSilent(nil))
		}),
		kind(4, "watcher paused while it accuses", func(w *world, _ *host) {
			w.faults.addTrigger(faultTrigger{moment: w.drawAccusing(), after: w.drawSoon(), beginAt: func(p *process) {
				w.pauseFor(p.host, w.drawSilent(p.host))
			}})
			w.pauseFor(w.drawHost(), w.drawSilent(nil))
		}),
		kind(4, "accused paused while it is accused", func(w *world, h *host) {
			w.faults.addTrigger(faultTrigger{moment: w.drawAccusing(), after: w.drawSoon(), begin: func() {
				if x := w.checks.lastAccusedSilent(); x != nil {
					w.pauseFor(x, w.drawSilent(x))
				}
			}})
			w.apartFromWatchers(h)
		}),
		kind(3, "removal for silence late, and its sender paused", func(w *world, _ *host) {
			w.delayNext(nil, requestRemoveSilent)
			w.faults.addTrigger(faultTrigger{moment: momentSent + faultMoment(requestRemoveSilent),
				beginAt: func(p *process) { w.pauseFor(p.host, w.Between(0, 2*w.ttl)) }})
			w.pauseFor(w.drawHost(), w.Between(w.silence/2, 2*w.ttl))
		}),
		kind(6, "one request about silence lost, unanswered or late", func(w *world, h *host) {
			w.loseRequestOf(h, w.drawSilenceRequest())
			if w.OneIn(2) {
				w.apartFromWatchers(h)
			} else {
				w.pauseFor(h, w.drawSilent(h))
			}
		}),
		kind(3, "a member's view late, and its watchers apart from it", func(w *world, h *host) {
			h.link.FreezeWatch(w.Between(0, w.ttl))
			w.apartFromWatchers(h)
		}),
		kind(2, "messages between nodes delayed by about a silence time-out", func(w *world, h *host) {
			w.slowFor(w.drawDuration(h), schedule.Pick(w.Rand, w.proofByBeats()/4, w.accusedAfter(), w.proofByBeats()))
		}),
	}
}

// drawOther draws another host: in most cases one that watches h, or is watched by it.
func (w *world) drawOther(h *host) *host {
	if p := h.process; p != nil && !w.OneIn(4) {
		var near []*host
		for _, s := range p.node.watchers {
			near = append(near, s.from.host)
		}
		for _, s := range p.node.watching {
			near = append(near, s.to.host)
		}
		if len(near) > 0 {
			return schedule.Pick(w.Rand, near...)
		}
	}
	for {
		if there := w.drawHost(); there != h {
			return there
		}
	}
}

func (w *world) drawHost() *host { return schedule.Pick(w.Rand, w.hosts...) }

// watchers returns the hosts whose processes watch the process of h.
func (h *host) watchers() (found []*host) {
	if h.process == nil {
		return nil
	}
	for _, s := range h.process.node.watchers {
		found = append(found, s.from.host)
	}
	return found
}

// apartFromWatchers keeps a host and its watchers from reaching each other.
func (w *world) apartFromWatchers(h *host) {
	d := w.drawSilent(h)
	for _, there := range h.watchers() {
		w.noteFault(h, "and its watcher %s cannot reach each other for %v", there.address, d)
		w.cutWay(h, there, d)
		w.cutWay(there, h, d)
	}
}

// isolate cuts a host off from etcd and from all others. Its process lives on, and no connection breaks soon.
func (w *world) isolate(h *host, d time.Duration) {
	w.noteFault(h, "is cut off from everything for %v", d)
	h.link.CutOff(d)
	w.silenceFor(h, d)
	w.checks.expectRemoval(h)
}

// drawSilenceRequest draws the kind of a request about silence.
func (w *world) drawSilenceRequest() requestKind {
	return schedule.Pick(w.Rand, requestAccuseSilent, requestAccuseSilent, requestWithdrawSilent, requestRemoveSilent,
		requestRemoveSilent, requestRefuteAll, requestRefuteAll, requestProofRead, requestProofRead)
}

// drawAccusing draws a moment at which a watcher accuses a member, or removes it.
func (w *world) drawAccusing() faultMoment {
	return schedule.Pick(w.Rand, momentSent, momentExecuted, momentAnswered) + faultMoment(schedule.Pick(w.Rand,
		requestAccuseSilent, requestAccuseSilent, requestRemoveSilent, requestWithdrawSilent))
}

// drawSoon draws the time from a moment to the fault that it begins.
func (w *world) drawSoon() time.Duration {
	return schedule.Pick(w.Rand, 0, w.Between(0, 3*time.Millisecond), w.Between(0, w.silence/3))
}

// drawSilent draws the duration of a fault that silences a host, with nil any host. It often ends around an instant
// that matters: one of the protocol's times after the begin, or after the last acknowledged heartbeat.
func (w *world) drawSilent(h *host) time.Duration {
	a, b := w.proofByBeats(), w.proofByRead()
	switch w.Rand.IntN(6) {
	case 0:
		return w.Between(0, w.silence)
	case 1:
		return w.Between(w.silence, 2*w.ttl)
	}
	after := schedule.Pick(w.Rand, w.accusedAfter(), b, a, a, a*waitFactor/10000, a*waitFactor/10000, a+b,
		w.accusedAfter()+b)
	if h != nil && h.process != nil && w.OneIn(2) {
		if last, ok := w.checks.lastReceipt(h.process); ok {
			after -= w.Now() - last
		}
	}
	return max(after+w.Between(-20*time.Millisecond, 20*time.Millisecond), 0)
}
