package simulation

import (
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
	"github.com/goverse/goverse/internal/txn"
)

// answers stands for Detector.Answer: it refutes accusations of its own member, and
// takes back its own that are void.
type answers struct {
	looking     bool
	underWay    int // refutations
	withdrawing bool
}

// poke makes both loops look.
func (a *answers) poke(d *detector) {
	if !a.looking {
		a.looking = true
		d.p.soon(func() {
			a.looking = false
			a.refute(d)
			a.withdraw(d)
		})
	}
}

// refute is refuter.refute: it looks again until the accusations are gone.
func (a *answers) refute(d *detector) {
	p := d.p
	s := p.mirror.snapshot
	against := suspicion.Against(s, p.self())
	if len(against) == 0 {
		return
	}
	p.after(suspicion.RefuteAgain, func() { a.poke(d) })
	if a.underWay >= suspicion.RefutationsAtOnce {
		return
	}
	a.underWay++
	p.change(toRefute, accuseTimeout, txn.Refute(p.w.keys, s.Member(p.host.address), against), func(_ answer, err error) {
		a.underWay--
		if err == nil {
			p.w.checks.count(Refuted)
		}
	})
}

// withdraw is Detector.withdrawVoid.
func (a *answers) withdraw(d *detector) {
	if a.withdrawing {
		return
	}
	p := d.p
	void := suspicion.Void(p.mirror.snapshot, p.id)
	if len(void) == 0 {
		return
	}
	a.withdrawing = true
	a.withdrawAll(d, void)
}

func (a *answers) withdrawAll(d *detector, void []*state.Accusation) {
	p := d.p
	if len(void) == 0 {
		a.withdrawing = false
		a.poke(d)
		return
	}
	p.change(toRefute, accuseTimeout, txn.Withdraw(p.w.keys, void[0]), func(_ answer, err error) {
		if err != nil {
			a.withdrawing = false
			p.after(suspicion.WithdrawRetry.Delay(1, backoff.NoJitter), func() { a.poke(d) })
			return
		}
		if p.mirror.snapshot.Accused(void[0].Address, p.id, void[0].ModRevision) {
			// The snapshot will show it in a moment, and make it look then.
			a.withdrawing = false
			return
		}
		a.withdrawAll(d, void[1:])
	})
}

// watcherLost is a turn of Detector.watcherLost: a watcher was lost.
func (d *detector) watcherLost() {
	if d.p.keeper.current {
		if log := d.p.w.log; log != nil {
			log.of(d.p, "has lost a watcher, and asks etcd for a confirmation")
		}
		d.p.keeper.session.suspect(suspicion.ConfirmWithin(grace, d.p.mirror.snapshot.Member(d.p.host.address)))
	}
}

// self is Detector.self.
func (p *process) self() suspicion.Self {
	me := suspicion.Self{Address: p.host.address, InstanceID: p.id}
	if p.keeper.current {
		me.Lease = p.keeper.session.lease
	}
	return me
}
