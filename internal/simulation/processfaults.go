package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

func pauseProcess(w *world, h *host) { w.pauseFor(h, w.duration(h)) }

// pauseInRenewal stops the process while a renewal's answer is on its way, until about
// its deadline.
func pauseInRenewal(w *world, h *host) {
	w.faults.waiting = append(w.faults.waiting, trigger{moment: carriedOut +
		moment(pick(w, []kind{toRenew, toCheck})), host: h,
		begin: func() {
			if p := h.process; p != nil && p.keeper.session != nil {
				left := h.clock().Until(p.keeper.session.claim.Until())
				w.pauseFor(h, max(0, left+w.between(-time.Millisecond, 20*time.Millisecond)))
			}
		}})
}

// pauseFor is SIGSTOP and SIGCONT.
func (w *world) pauseFor(h *host, d time.Duration) {
	p := h.process
	if p == nil || p.paused {
		return
	}
	w.note(h, "is paused for %v", d)
	p.paused = true
	w.faults.last(d, func() {
		p.paused = false
		if !p.dead {
			w.note(h, "goes on")
			p.goOn()
		}
	})
}

func suspendMachine(w *world, h *host) {
	if h.suspended >= 0 || h.setBack {
		return
	}
	d := w.duration(h)
	w.note(h, "its machine is suspended for %v", d)
	h.suspend()
	w.faults.last(d, func() {
		h.hinder()
		h.resume()
		w.note(h, "its machine goes on")
		if p := h.process; p != nil && p.keeper.session != nil {
			p.keeper.session.wallStepped()
		}
	})
}

func stepWall(w *world, h *host) {
	by := w.between(-2*w.ttl, 2*w.ttl)
	if h.stood > 0 || h.suspended >= 0 {
		by = by.Abs() // set back around a suspension, neither clock shows the time that passed
	}
	h.setBack = h.setBack || by < 0
	w.note(h, "its wall clock is stepped by %v", by)
	h.wallAhead += by
	h.stepped = true
	if p := h.process; p != nil && p.keeper.session != nil {
		p.keeper.session.wallStepped()
	}
}

func busyMachine(w *world, h *host) {
	d, slow := w.duration(h), pick(w, []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, time.Second})
	w.note(h, "is so busy that goroutines wait for up to %v, for %v", slow, d)
	h.slow = slow
	w.faults.last(d, func() {
		h.lagged = max(h.lagged, w.now+h.slow) // who waits goes on waiting
		h.slow = 0
	})
}

func crash(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "crashes")
	h.process.die(false)
	w.startAgain(h)
}

// loseHost: nobody hears of the end of its processes, nor is anybody refused.
func loseHost(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "its host is lost")
	h.process.die(true)
	h.silent = true
	w.faults.last(w.duration(h), func() { h.silent = false })
	w.startAgain(h)
}

func (w *world) startAgain(h *host) {
	if w.chance(2) {
		return // when everything is healed
	}
	d := w.duration(h)
	if w.chance(3) {
		d = w.between(0, 50*time.Millisecond)
	}
	w.after(d, func() {
		if h.process == nil && !h.silent {
			h.start()
		}
	})
}

func stopAndStart(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "is asked to stop")
	h.process.stop()
	w.startAgain(h)
}

func askLeader(w *world, h *host) {
	p := h.process
	if p == nil {
		return
	}
	if w.chance(2) {
		p.ask(state.RequestResign, "")
		return
	}
	p.ask(state.RequestTransfer, pick(w, w.hosts).address)
}
