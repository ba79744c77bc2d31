package simulation

import (
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/shardplan"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/txn"
)

// planner stands for consensus's: it writes the map while that is the process's
// duty.
type planner struct {
	p     *process
	part  shardplan.Planner
	poked bool
	busy  bool
	fails int  // to write a map, in a row
	again int  // counts timers
	timed bool // one runs
}

// poke makes the loop look, soon.
func (l *planner) poke() {
	if !l.poked {
		l.poked = true
		if !l.busy {
			l.p.soon(l.look)
		}
	}
}

// published is what the planner's two subscriptions do.
func (l *planner) published(before, now *state.Snapshot) {
	if before == nil || before.Stale || now.Stale || shardplan.Concerns(before, now) || before.Leader() != now.Leader() {
		l.poke()
	}
}

// duty is LeaderElection.Duty, and what the checks want to know about it.
type duty struct {
	fence []txn.Guard
	mode  election.Mode
	lease int64
	token int64

	beside bool // an outside candidate leads
}

func (p *process) duty() (duty, bool) {
	if t := p.election.term; t != nil && t.valid() {
		return newDuty(p, t.Mode, t.s.lease, t.Token), true
	}
	snap := p.mirror.snapshot
	if snap == nil || !p.keeper.current || !p.keeper.valid() {
		return duty{}, false
	}
	if l := snap.Leader(); l.Address == "" || l.Member {
		return duty{}, false
	}
	lease := p.keeper.session.lease
	own, _ := snap.Candidate(lease)
	if first := snap.Planner(); own == nil || first == nil || first.Lease != lease {
		return duty{}, false
	}
	d := newDuty(p, election.ModeElection, lease, own.CreateRevision)
	d.beside = true
	return d, true
}

func newDuty(p *process, mode election.Mode, lease, token int64) duty {
	return duty{fence: txn.TermGuards(p.w.keys, mode, lease, token), mode: mode, lease: lease, token: token}
}

// look is planner.look.
func (l *planner) look() {
	l.poked = false
	p := l.p
	snap := p.mirror.snapshot
	mine, ok := p.duty()
	switch {
	case !ok:
		l.part = l.part.Off()
		return
	case snap == nil || snap.Stale:
		return
	}
	part, orders := l.part.Look(snap, p.host.time())
	l.part = part
	if orders.Err != nil || orders.Plan.Moved() == 0 {
		l.after(orders.Again)
		return
	}
	l.busy = true
	p.w.faults.moment(p, planned)
	p.after(p.w.between(0, time.Millisecond), func() { l.write(mine, orders) })
}

// write is the rest of planner.look.
func (l *planner) write(mine duty, orders shardplan.Orders) {
	p := l.p
	at := p.host.time()
	c := txn.WriteMap(p.w.keys, mine.fence, orders.Plan.Map, orders.Over)
	known := p.mirror.known
	due := p.host.mono() + int64(requestTimeout)
	p.call(toPlan, requestTimeout, func(e *etcd) (answer, error) {
		a, err := e.execute(p.host, c)
		if err == nil && a.held {
			e.w.checks.dealt(e.w, p, mine, orders.Plan)
		} else if err == nil {
			e.w.checks.refused(e.w, mine)
		}
		return a, err
	}, func(a answer, err error) {
		if err != nil {
			l.fails++
			l.done(shardplan.Retry.Delay(l.fails, backoff.NoJitter))
			return
		}
		l.fails = 0
		p.mirror.saw(a.revision, known)
		if !a.held {
			l.done(shardplan.Again)
			return
		}
		l.part = l.part.Wrote(orders.Plan, at)
		p.mirror.wait(durationOf(due-p.host.mono()), func(s *state.Snapshot) bool { return s.Revision >= a.revision },
			func(bool) { l.done(shardplan.Again) })
	})
}

func (l *planner) done(again time.Duration) {
	l.busy = false
	l.after(again)
	if l.poked {
		l.p.soon(l.look)
	}
}

// after sets the timer anew, unless there is nothing to wait for.
func (l *planner) after(d time.Duration) {
	if d <= 0 {
		return
	}
	l.again++
	l.timed = true
	mine := l.again
	l.p.after(d, func() {
		if l.again == mine {
			l.timed = false
			l.poke()
		}
	})
}
