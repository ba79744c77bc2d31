package simulation

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/state"
)

func pauseProcess(w *world, h *host) { w.pauseFor(h, w.duration(h)) }

// pauseInRenewal stops the process while a renewal's answer is under way, until about the session's deadline.
func pauseInRenewal(w *world, h *host) {
	w.faults.at(trigger{moment: carriedOut + moment(pick(w, []kind{toRenew, toCheck})), host: h,
		begin: func() {
			if p := h.process; p != nil && p.session() != nil {
				w.pauseFor(h, max(0, p.session().Left()+w.between(-time.Millisecond, 20*time.Millisecond)))
			}
		}})
}

// pauseInSuspicion makes a process lose its watchers, and stops it while the answer is under way that would
// clear the suspicion. When it continues, the answer is too late, or too late for its claims.
func pauseInSuspicion(w *world, h *host) {
	breakStreams(w, h)
	w.after(mostNotice/2, func() {
		w.faults.at(trigger{moment: carriedOut + moment(pick(w, []kind{toRenew, toCheck})), host: h,
			begin: func() { w.pauseFor(h, w.between(0, w.ttl)) }})
	})
}

// pauseFor stops a process for d, as SIGSTOP and SIGCONT do.
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
		by = by.Abs() // set back around a suspension, neither clock would show the time that passed
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

// restart lets a host's process crash, and starts the next one at once.
func (w *world) restart(h *host) {
	if h.process != nil && !h.standsStill() {
		w.note(h, "crashes, and starts again")
		h.process.die(false)
		w.after(w.between(0, 10*time.Millisecond), h.begin)
	}
}

// loseHost loses a host with its process. Others get no notice of the end, and no refusal.
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
		return // it starts when everything is healed
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

// asked is called before the leader is asked to give way.
func (c *checks) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
}

// resign lets the process give up its leadership, if it leads.
func (p *process) resign() {
	t := p.core.Manager.Election().Term()
	if t == nil {
		return
	}
	p.w.checks.resigns(t.Token())
	p.wg.Go(func() { _ = p.core.Manager.Election().Resign(p.ctx) })
}

// resigns is called with a term that is about to end by giving up its key.
func (c *checks) resigns(token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resigned = append(c.resigned, token)
}

// pauseInPlanning stops the leader when it has made a plan but not sent it, or while the plan is under way.
func pauseInPlanning(w *world, h *host) {
	t := trigger{moment: pick(w, []moment{sent, carriedOut}) + moment(toPlan), skip: w.rand.IntN(2)}
	t.begin = func() {
		if l := w.leader(); l != nil {
			w.pauseFor(l.host, w.duration(l.host))
		}
	}
	w.faults.at(t)
	if w.chance(2) { // the crash gives it something to plan
		w.after(w.between(0, 50*time.Millisecond), func() { crashProcess(w, h) })
	}
}
