package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/test/schedule"
)

func refuseConnections(w *world, h *host) { w.refuseConnectionsFor(h, w.drawDuration(h)) }

// refuseConnectionsFor closes the host's port to others.
func (w *world) refuseConnectionsFor(h *host, d time.Duration) {
	w.noteFault(h, "refuses connections for %v", d)
	h.refuses = true
	breakStreams(w, h)
	w.EndAfter(d, func() { h.refuses = false })
}

// breakStreams resets the connections between this host and its watchers.
func breakStreams(w *world, h *host) {
	if p := h.process; p != nil {
		w.noteFault(h, "the connections of its watchers break")
		for _, s := range append([]*watchStream(nil), p.node.watchers...) {
			s.endStream(false, w.OneIn(4), false)
		}
	}
}

func silenceHost(w *world, h *host) {
	d := w.drawDuration(h)
	w.noteFault(h, "no host reaches its address for %v", d)
	breakStreams(w, h)
	w.silenceFor(h, d)
}

// cutHosts keeps one host from reaching another one, which may still reach it.
func cutHosts(w *world, h *host) {
	there, d := schedule.Pick(w.Rand, w.hosts...), w.drawDuration(h)
	if there == h {
		return
	}
	w.noteFault(h, "cannot reach %s for %v", there.address, d)
	if p := h.process; p != nil {
		for _, s := range append([]*watchStream(nil), p.node.watching...) {
			if s.to.host == there {
				s.endStream(false, w.OneIn(2), false)
			}
		}
	}
	w.cutWay(h, there, d)
}

// silenceFor drops the messages from and to a host for d.
func (w *world) silenceFor(h *host, d time.Duration) {
	if h.silent {
		return
	}
	h.silent = true
	w.timeOutStreams(func(s *watchStream) bool { return h.silent && (s.from.host == h || s.to.host == h) })
	w.EndAfter(d, h.endSilence)
}

// endSilence lets others reach the host's address again.
func (h *host) endSilence() {
	h.silent = false
	h.reachable, h.w.faults.cutUntil = h.w.Now(), h.w.Now()
	h.w.resendMessages()
}

// cutWay drops the messages from one host to another one for d.
func (w *world) cutWay(h, there *host, d time.Duration) {
	if h.cut[there] {
		return
	}
	h.cut[there] = true
	w.timeOutStreams(func(s *watchStream) bool {
		return h.cut[there] && (s.from.host == h && s.to.host == there || s.from.host == there && s.to.host == h)
	})
	w.EndAfter(d, func() {
		delete(h.cut, there)
		w.faults.cutUntil = w.Now()
		w.resendMessages()
	})
}

// timeOutStreams makes both sides of the streams that a cut concerns notice after a long time that nothing arrives. It
// does not matter if the cut that concerns them then is another one.
func (w *world) timeOutStreams(concerned func(s *watchStream) bool) {
	for _, h := range w.hosts {
		if h.process == nil {
			continue
		}
		for _, s := range h.process.node.watchers {
			if concerned(s) {
				w.After(w.Between(minSilence, maxSilence), func() {
					if concerned(s) {
						s.timedOut = true
						s.endStream(false, false, false)
					}
				})
			}
		}
	}
}

func slowNetwork(w *world, h *host) {
	d := w.drawDuration(h)
	w.slowFor(d, schedule.Pick(w.Rand, 10*time.Millisecond, 300*time.Millisecond, 3*time.Second))
}

// slowFor delays the messages between nodes by up to most for d.
func (w *world) slowFor(d, most time.Duration) {
	w.faults.slow = most
	w.noteFault(nil, "messages between nodes delayed by up to %v for %v", w.faults.slow, d)
	w.EndAfter(d, func() { w.faults.slow, w.faults.slowUntil = 0, w.Now() })
}
