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
	h.silent = true
	breakStreams(w, h)
	w.EndAfter(d, func() { h.silent = false })
}

// cutHosts keeps one host from reaching another one, which may still reach it.
func cutHosts(w *world, h *host) {
	there, d := schedule.Pick(w.Rand, w.hosts...), w.drawDuration(h)
	if there == h {
		return
	}
	w.noteFault(h, "cannot reach %s for %v", there.address, d)
	h.cut[there] = true
	if p := h.process; p != nil {
		for _, s := range append([]*watchStream(nil), p.node.watching...) {
			if s.to.host == there {
				s.endStream(false, w.OneIn(2), false)
			}
		}
	}
	w.EndAfter(d, func() { delete(h.cut, there) })
}

func slowNetwork(w *world, h *host) {
	d := w.drawDuration(h)
	w.faults.slow = schedule.Pick(w.Rand, 10*time.Millisecond, 300*time.Millisecond, 3*time.Second)
	w.noteFault(nil, "messages between nodes delayed by up to %v for %v", w.faults.slow, d)
	w.EndAfter(d, func() { w.faults.slow, w.faults.slowUntil = 0, w.Now() })
}
