package leasequeue

import "github.com/goverse/goverse/internal/leasequeue/entrystate"

// applyChange stores the entry's new state and carries out the orders. The caller holds Engine.mu.
func (x *Entry) applyChange(p entrystate.State, o entrystate.Orders) {
	if o == (entrystate.Orders{}) && x.state.Load().Equivalent(p) {
		return
	}
	x.state.Store(&p)
	x.carryOut(o)
}

// applyInSession is like applyChange, for an event whose effect depends on the state of the session. It may grant the
// entry.
func (x *Entry) applyInSession(event func(entrystate.State, entrystate.Session) (entrystate.State, entrystate.Orders)) {
	r := x.run
	before, period := x.state.Load(), r.session.Period()
	p, o := event(*before, entrystate.Session{Usable: period.Valid() && !r.session.Suspected(), Fresh: r.viewFresh()})
	if before.Claim != entrystate.Granted && p.Claim == entrystate.Granted {
		x.grant = &Grant{Entry: x, period: period}
	}
	x.applyChange(p, o)
}

// carryOut carries out the orders. The caller holds Engine.mu.
func (x *Entry) carryOut(o entrystate.Orders) {
	r := x.run
	if o.RegisterWaiter {
		r.registerWaiter(x)
	}
	if o.UnregisterWaiter {
		r.unregisterWaiter(x)
	}
	if o.HoldBack {
		r.holdBack(x)
	}
	ending := o.StopCause != nil && x.grant != nil && x.grant.endContexts()
	switch {
	case o.DeleteKey && ending: // delete it after the contexts have ended
		r.e.queueNotice(func() { r.e.withLock(func() { r.outbox.addOp(queueOp{entry: x}) }) })
	case o.DeleteKey:
		r.outbox.addOp(queueOp{entry: x})
	}
	if o.ForgetKey {
		r.removeEntry(x)
	}
	if o.CloseDecided {
		x.decided.close()
	}
	if o.CloseGone {
		x.gone.close()
	}
	if o.NotifyOwner {
		r.e.queueNotice(x.Notify)
	}
}

// latch is closed once, and is a channel only for callers that wait for that. Engine.mu guards it.
type latch struct{ c chan struct{} }

// channel returns a channel that is closed already, or by the next close.
func (l *latch) channel(closed bool) <-chan struct{} {
	if closed {
		return closedChan
	}
	if l.c == nil {
		l.c = make(chan struct{})
	}
	return l.c
}

// close closes the channels that were returned so far.
func (l *latch) close() {
	if l.c != nil {
		close(l.c)
		l.c = nil
	}
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
