package simulation

import (
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
	"github.com/goverse/goverse/internal/txn"
)

// watched stands for the goroutine of crashdetector that carries one case out.
type watched struct {
	d           *detector
	address     string
	incarnation int64
	c           suspicion.Case
	member      *state.Member // of this incarnation, as it was last seen
	stream      *stream
	opened      int64 // when the stream was, on the monotonic clock
	session     *session
	written     int64 // revision of the accusation
	took        int64 // to write it
	waiting     int   // counts graces; an old one is over
	dropped     bool  // to be given up as soon as nothing of it stands in etcd
	gone        bool  // it waits for the snapshot to show that the member is gone
	ended       bool
}

func newWatched(d *detector, m *state.Member) *watched {
	w := &watched{d: d, address: m.Address, incarnation: m.Incarnation, member: m}
	var a suspicion.Action
	w.c, a = suspicion.Again(d.removed[m.InstanceID], settings)
	w.d.p.soon(func() { w.do(a) })
	return w
}

// drop gives the case up: at once, or when nothing of it stands in etcd any more.
func (w *watched) drop() {
	w.dropped = true
	if w.c.Interruptible() || w.gone {
		w.end()
	}
}

// end is the end of watched.run.
func (w *watched) end() {
	if w.ended {
		return
	}
	w.ended = true
	if w.stream != nil {
		w.stream.end(suspicion.Goodbye, true, false)
		w.stream = nil
	}
	w.d.cases = drop(w.d.cases, w)
	w.d.poke()
}

// on is a turn of watched.run.
func (w *watched) on(e suspicion.Event) {
	if w.ended {
		return
	}
	counted := w.c.Counts()
	var a suspicion.Action
	w.c, a = w.c.On(e, settings)
	if log := w.d.p.w.log; log != nil {
		log.of(w.d.p, "about %s: %s, then %s", w.address, e, a.Do)
	}
	if counted != w.c.Counts() {
		w.d.poke()
	}
	if w.dropped && w.c.Interruptible() {
		w.end()
		return
	}
	w.do(a)
}

// do is watched.do.
func (w *watched) do(a suspicion.Action) {
	switch a.Do {
	case suspicion.Nothing:
		w.awaitGone()
		return
	case suspicion.Listen:
		return
	case suspicion.Wait:
		w.await(a)
		return
	}
	act := func() {
		switch {
		case w.ended:
		case a.Do == suspicion.Open:
			w.open()
		case a.Do == suspicion.Accuse:
			w.accuse(a.Evidence)
		case a.Do == suspicion.Remove:
			w.remove()
		}
	}
	if a.After > 0 {
		w.d.p.after(a.After, act)
		return
	}
	act()
}

// awaitGone waits until the snapshot shows what etcd confirmed.
func (w *watched) awaitGone() {
	w.gone = true
	if w.dropped {
		w.end()
		return
	}
	w.published(w.d.p.mirror.snapshot)
}

// open is watched.open.
func (w *watched) open() {
	p := w.d.p
	if m := p.mirror.snapshot.Member(w.address); m != nil && m.Incarnation == w.incarnation {
		w.member = m
	}
	member := w.member
	w.dial(func(s *stream, refused bool) {
		switch {
		case w.ended:
			if s != nil {
				s.end(suspicion.Goodbye, true, false)
			}
		case refused:
			w.on(suspicion.Refused)
		case s == nil || s.ended:
			w.on(suspicion.Silence)
		case member.InstanceID != "" && s.to.id != member.InstanceID:
			s.end(suspicion.Goodbye, true, false)
			w.on(suspicion.Other)
		default:
			w.stream, w.opened = s, p.host.mono()
			w.on(suspicion.Opened)
		}
	})
}

// broke is the end of watched.listen.
func (w *watched) broke(e suspicion.Event) {
	if e == suspicion.Broke && w.d.p.host.mono()-w.opened < int64(briefWatch) {
		e = suspicion.Flapped
	}
	w.on(e)
}

// accuse is watched.accuse.
func (w *watched) accuse(evidence string) {
	p := w.d.p
	if !p.keeper.current || !p.keeper.valid() {
		w.on(suspicion.NotAccused)
		return
	}
	if suspicion.LeftToLease(w.member) {
		p.w.checks.count(FarLeftToLease)
		w.on(suspicion.NotAccused)
		return
	}
	w.session = p.keeper.session
	began := p.host.mono()
	p.accuse(w.member, w.session.lease, evidence, func(written int64, changed bool, err error) {
		w.took = p.host.mono() - began
		switch {
		case err != nil:
			w.on(suspicion.NotAccused)
		case changed:
			w.on(suspicion.Unregistered)
		default:
			w.written = written
			w.on(suspicion.Accused)
		}
	})
}

// await gives the accused its grace, and ends it as soon as the accusation is seen
// answered.
func (w *watched) await(a suspicion.Action) {
	w.waiting++
	mine := w.waiting
	w.d.p.after(suspicion.Grace(a.After, durationOf(w.took), w.member), func() {
		if w.waiting == mine {
			w.waiting++
			w.on(suspicion.GraceOver)
		}
	})
	w.published(w.d.p.mirror.snapshot)
}

// published is what the case waits for with Mirror.Wait: that its accusation stands no
// longer, or that the member is gone.
func (w *watched) published(s *state.Snapshot) {
	p := w.d.p
	now := s.Member(w.address)
	there := now != nil && now.Incarnation == w.incarnation
	if w.gone && !there {
		p.soon(w.end)
		return
	}
	if w.c.Phase != suspicion.Waiting || s.Revision < w.written || s.Accused(w.address, p.id, w.written) {
		return
	}
	mine := w.waiting
	p.soon(func() {
		if w.waiting != mine {
			return
		}
		w.waiting++
		switch {
		case !there:
			w.on(suspicion.Unregistered)
		case !w.session.valid():
			w.on(suspicion.NotRemoved)
		default:
			w.on(suspicion.Refuted)
		}
	})
}

// remove is watched.remove.
func (w *watched) remove() {
	d := w.d
	d.p.removeAccused(w.member, w.written, func(s removed) {
		switch {
		case s == wasRemoved:
			if d.removed == nil {
				d.removed = map[string]int{}
			}
			d.removed[w.member.InstanceID]++
			w.on(suspicion.Removed)
		case s == hadChanged:
			w.on(suspicion.Unregistered)
		case s == wasRefuted && w.session.valid():
			w.on(suspicion.Refuted)
		default:
			w.on(suspicion.NotRemoved)
		}
	})
}

// accuse is Accuser.accuse.
func (p *process) accuse(m *state.Member, lease int64, evidence string,
	then func(written int64, changed bool, err error)) {
	c := txn.Accuse(p.w.keys, m, p.id, lease, evidence)
	p.call(toAccuse, accuseTimeout, func(e *etcd) (answer, error) {
		a, err := e.execute(p.host, c)
		if err == nil && a.held {
			e.w.checks.accused(e.w, m, a.revision)
		}
		return a, err
	}, func(a answer, err error) { then(a.revision, err == nil && !a.held, err) })
}

// removed is what came of a removal.
type removed int

const (
	wasRemoved removed = iota
	wasRefuted         // the accusation stood no longer
	hadChanged         // it is registered no longer, or anew
	notKnown
)

// removeAccused is Accuser.removeAccused.
func (p *process) removeAccused(m *state.Member, written int64, then func(removed)) {
	queued, _ := p.mirror.snapshot.Candidate(m.KeyLease)
	c := txn.Remove(p.w.keys, m, m.KeyLease != 0 && queued != nil, p.id, written)
	by := cause{p: p, by: removal, member: m}
	p.call(toRemove, accuseTimeout, func(e *etcd) (answer, error) {
		e.author = by
		a, err := e.execute(p.host, c)
		if err == nil && a.held {
			e.w.checks.removed(e.w, m, written)
		}
		return a, err
	}, func(a answer, err error) {
		switch {
		case err != nil:
			then(notKnown)
		case a.held && m.KeyLease != 0:
			p.call(toRevoke, accuseTimeout, func(e *etcd) (answer, error) {
				e.author = by
				return e.revoke(p.host, m.KeyLease)
			}, func(answer, error) { then(wasRemoved) })
		case a.held:
			then(wasRemoved)
		case len(a.found) == 0 || a.found[0].CreateRevision != m.Incarnation:
			then(hadChanged)
		default:
			then(wasRefuted)
		}
	})
}
