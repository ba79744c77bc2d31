package simulation

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
)

func pauseProcess(w *world, h *host) { w.pauseFor(h, w.drawDuration(h)) }

// pauseInRenewal stops the process while a renewal's answer is under way, until about the session's deadline.
func pauseInRenewal(w *world, h *host) {
	w.faults.addTrigger(faultTrigger{
		moment: momentExecuted + faultMoment(schedule.Pick(w.Rand, requestRenew, requestRoundRead)), host: h,
		begin: func() {
			if p := h.process; p != nil && p.session() != nil {
				w.pauseFor(h, max(0, p.session().TimeLeft()+w.Between(-time.Millisecond, 20*time.Millisecond)))
			}
		}})
}

// pauseInSuspicion makes a process lose its watchers, and stops it while the answer is under way that would
// clear the suspicion. When it continues, the answer is too late, or too late for its claims.
func pauseInSuspicion(w *world, h *host) {
	breakStreams(w, h)
	w.After(maxNotice/2, func() {
		w.faults.addTrigger(faultTrigger{
			moment: momentExecuted + faultMoment(schedule.Pick(w.Rand, requestRenew, requestRoundRead)), host: h,
			begin: func() { w.pauseFor(h, w.Between(0, w.ttl)) }})
	})
}

// pauseFor stops a process for d, as SIGSTOP and SIGCONT do.
func (w *world) pauseFor(h *host, d time.Duration) {
	p := h.process
	if p == nil || h.paused {
		return
	}
	w.noteFault(h, "is paused for %v", d)
	h.pauseProcess()
	w.checks.expectRemoval(h)
	w.EndAfter(d, func() {
		w.noteFault(h, "continues")
		h.resumeProcess()
	})
}

func suspendMachine(w *world, h *host) {
	w.suspendFor(h, w.drawDuration(h))
}

// suspendFor suspends a machine for d.
func (w *world) suspendFor(h *host, d time.Duration) {
	if h.suspended || h.setBack {
		return
	}
	w.noteFault(h, "its machine is suspended for %v", d)
	h.suspendMachine()
	w.checks.expectRemoval(h)
	w.EndAfter(d, func() {
		w.noteFault(h, "its machine continues")
		h.resumeMachine()
	})
}

func stepWall(w *world, h *host) {
	by := w.Between(-2*w.ttl, 2*w.ttl)
	if c := h.clocks.Load(); c.stood > 0 || h.suspended {
		by = by.Abs() // set back around a suspension, neither clock would show the time that passed
	}
	w.noteFault(h, "its wall clock is stepped by %v", by)
	h.stepClock(by)
}

func crashProcess(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.noteFault(h, "crashes")
	w.checks.recordCrash(h.process)
	h.process.killProcess(false)
	w.startAgain(h)
}

// restart lets a host's process crash, and starts the next one at once.
func (w *world) restart(h *host) {
	if h.process != nil && !h.standsStill() {
		w.noteFault(h, "crashes, and starts again")
		h.process.killProcess(false)
		w.After(w.Between(0, 10*time.Millisecond), h.ensureStarted)
	}
}

// loseHost loses a host with its process. Others get no notice of the end, and no refusal.
func loseHost(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.noteFault(h, "its host is lost")
	w.checks.expectRemoval(h)
	h.process.killProcess(true)
	h.silent = true
	w.EndAfter(w.drawDuration(h), h.endSilence)
	w.startAgain(h)
}

func (w *world) startAgain(h *host) {
	if w.OneIn(2) {
		return // it starts when everything is healed
	}
	d := w.drawDuration(h)
	if w.OneIn(3) {
		d = w.Between(0, 50*time.Millisecond)
	}
	w.After(d, func() {
		if h.process == nil && !h.silent {
			h.startProcess()
		}
	})
}

func stopAndStart(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.noteFault(h, "is asked to stop")
	h.process.requestStop()
	w.startAgain(h)
}

func requestResignation(w *world, h *host) {
	p := h.process
	if p == nil {
		return
	}
	kind, target := state.RequestResign, ""
	if w.OneIn(2) {
		kind, target = state.RequestTransfer, schedule.Pick(w.Rand, w.hosts...).address
	}
	p.logf("requests %s to %q", kind, target)
	w.checks.recordResignRequest()
	patience := w.Between(0, w.ttl)
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		if kind == state.RequestResign {
			_ = p.election.RequestResign(ctx) // it may not be possible
		} else {
			_ = p.election.Transfer(ctx, target)
		}
	})
}

// recordResignRequest is called before the leader is asked to give way.
func (c *checks) recordResignRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
}

// resign lets the process give up its leadership, if it leads.
func (p *process) resign() {
	t, leads := p.election.Term()
	if !leads {
		return
	}
	p.w.checks.recordResigning(t.Token())
	p.wg.Go(func() { _ = p.election.Resign(p.ctx) })
}

// recordResigning is called with a term that is about to end by giving up its key.
func (c *checks) recordResigning(token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resigned = append(c.resigned, token)
}

// pauseInPlanning stops the leader when it has made a plan but not sent it, or while the plan is under way.
func pauseInPlanning(w *world, h *host) {
	t := faultTrigger{moment: schedule.Pick(w.Rand, momentSent, momentExecuted) + faultMoment(requestPlan),
		skip: w.Rand.IntN(2)}
	t.begin = func() {
		if l := w.leadingProcess(); l != nil {
			w.pauseFor(l.host, w.drawDuration(l.host))
		}
	}
	w.faults.addTrigger(t)
	if w.OneIn(2) { // the crash gives it something to plan
		w.After(w.Between(0, 50*time.Millisecond), func() { crashProcess(w, h) })
	}
}
