package simulation

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/state"
)

func pauseProcess(w *world, h *host) { w.pauseFor(h, w.duration(h)) }

// pauseInRenewal stops the process while a renewal's answer is on its way, until about
// its deadline.
func pauseInRenewal(w *world, h *host) {
	w.faults.at(trigger{moment: carriedOut + moment(pick(w, []kind{toRenew, toCheck})), host: h,
		begin: func() {
			if p := h.process; p != nil && p.session() != nil {
				w.pauseFor(h, max(0, p.session().Left()+w.between(-time.Millisecond, 20*time.Millisecond)))
			}
		}})
}

// pauseInSuspicion has a process lose its watchers, and stand still while the answer is on its way that would clear
// the suspicion: when it goes on, that comes too late, or too late for what it claimed.
func pauseInSuspicion(w *world, h *host) {
	breakStreams(w, h)
	w.after(mostNotice/2, func() {
		w.faults.at(trigger{moment: carriedOut + moment(pick(w, []kind{toRenew, toCheck})), host: h,
			begin: func() { w.pauseFor(h, w.between(0, w.ttl)) }})
	})
}

// pauseFor is SIGSTOP and SIGCONT.
func (w *world) pauseFor(h *host, d time.Duration) {
	p := h.process
	if p == nil || h.paused {
		return
	}
	w.note(h, "is paused for %v", d)
	h.pause()
	w.faults.last(d, func() {
		w.note(h, "goes on")
		h.unpause()
	})
}

func suspendMachine(w *world, h *host) {
	if h.suspended || h.setBack {
		return
	}
	d := w.duration(h)
	w.note(h, "its machine is suspended for %v", d)
	h.suspend()
	w.faults.last(d, func() {
		w.note(h, "its machine goes on")
		h.resume()
	})
}

func stepWall(w *world, h *host) {
	by := w.between(-2*w.ttl, 2*w.ttl)
	if c := h.clocks.Load(); c.stood > 0 || h.suspended {
		by = by.Abs() // set back around a suspension, neither clock shows the time that passed
	}
	w.note(h, "its wall clock is stepped by %v", by)
	h.step(by)
}

func busyMachine(w *world, h *host) {
	d, slow := w.duration(h), pick(w, []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, time.Second})
	w.note(h, "is so busy that goroutines wait for up to %v, for %v", slow, d)
	h.set(func(l *link) { l.busy = slow })
	w.faults.last(d, func() { w.repaired(h, func(l *link) { l.busy = 0 }) })
}

func crashProcess(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "crashes")
	w.checks.crashes(h.process)
	h.process.die(false)
	w.startAgain(h)
}

// restart has a host's process crash, and the next one start at once.
func (w *world) restart(h *host) {
	if h.process != nil && !h.standsStill() {
		w.note(h, "crashes, and starts again")
		h.process.die(false)
		w.after(w.between(0, 10*time.Millisecond), h.begin)
	}
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
	kind, target := state.RequestResign, ""
	if w.chance(2) {
		kind, target = state.RequestTransfer, pick(w, w.hosts).address
	}
	w.log.of(p, "asks for %s to %q", kind, target)
	w.checks.asked()
	patience := w.between(0, w.ttl)
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		if kind == state.RequestResign {
			_ = p.core.Manager.Election().RequestResign(ctx) // it may not be possible
		} else {
			_ = p.core.Manager.Election().Transfer(ctx, target)
		}
	})
}

// asked is called before somebody asks the leader to give way.
func (c *checks) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
}

// resign has the process give its leadership up, if it leads.
func (p *process) resign() {
	t := p.core.Manager.Election().Term()
	if t == nil {
		return
	}
	p.w.checks.resigns(t.Token())
	p.wg.Go(func() { _ = p.core.Manager.Election().Resign(p.ctx) })
}

// resigns is called with a term whose leader is to give its key up.
func (c *checks) resigns(token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resigned = append(c.resigned, token)
}

// pauseInPlanning stops a process that has made a plan and not sent it yet, or whose plan is on its way.
func pauseInPlanning(w *world, h *host) {
	t := trigger{moment: pick(w, []moment{sent, carriedOut}) + moment(toPlan), skip: w.rand.IntN(2)}
	t.begin = func() {
		if l := w.leader(); l != nil {
			w.pauseFor(l.host, w.duration(l.host))
		}
	}
	w.faults.at(t)
	if w.chance(2) { // something to plan for
		w.after(w.between(0, 50*time.Millisecond), func() { crashProcess(w, h) })
	}
}
