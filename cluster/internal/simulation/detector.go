package simulation

import (
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/internal/change"
	"github.com/goverse/goverse/cluster/internal/suspicion"
	"github.com/goverse/goverse/cluster/state"
)

// detector stands for crashdetector.Detector: it watches others, and answers for its
// own member.
type detector struct {
	p         *process
	cases     []*watched
	watchers  []*stream // those of others that stand, to this process
	choosing  bool
	refuting  bool // a turn of Answer is under way
	signalled bool // and there is reason for another one
}

// watched stands for the goroutine that carries one case out.
type watched struct {
	d       *detector
	member  *state.Member
	c       suspicion.Case
	stream  *stream
	dropped bool  // to be given up when nothing of it stands in etcd
	written int64 // revision of the accusation
	waiting int   // counts graces; an old one is over
}

// stream is a node.Watch: it stands as long as both processes live and the network
// between them does not break it.
type stream struct {
	from  *watched
	to    *process
	ended bool
}

var settings = suspicion.Settings{Confirmations: 3, Grace: grace, Rest: time.Second}

const (
	watchers       = 2
	dialTimeout    = 2 * time.Second
	refuteRetry    = 10 * time.Millisecond
	refuteTimeout  = time.Second
	accuseTimeout  = 2 * time.Second
	noticed        = time.Millisecond // how soon a closed socket is noticed, at most
	silenceTimeout = dialTimeout
)

func (d *detector) poke() {
	if !d.choosing {
		d.choosing = true
		d.p.soon(d.choose)
	}
}

// published is what the detector's subscriptions do.
func (d *detector) published(before, now *state.Snapshot) {
	if before == nil || !slices.EqualFunc(before.Members, now.Members, func(a, b *state.Member) bool {
		return a == b || a.Address == b.Address && a.Incarnation == b.Incarnation
	}) {
		d.poke()
	}
	d.signal(len(now.Accusations) > 0)
	for _, w := range d.cases {
		w.answeredFor(now)
	}
}

// choose is Detector.choose.
func (d *detector) choose() {
	d.choosing = false
	s := d.p.mirror.snapshot
	if !d.p.host.roles.detect || d.p.leaving.detector {
		return
	}
	suspected := func(m *state.Member) bool {
		w := d.of(m.Address)
		return w != nil && w.member.Incarnation == m.Incarnation && w.c.Suspects()
	}
	want := suspicion.Targets(s, d.p.host.address, watchers, suspected)
	for _, m := range want {
		w := d.of(m.Address)
		if w != nil && w.member.Incarnation == m.Incarnation {
			continue
		}
		if w != nil {
			d.drop(w)
		}
		w = &watched{d: d, member: m}
		d.cases = append(d.cases, w)
		w.do(suspicion.Action{Do: suspicion.Open})
	}
	for _, w := range slices.Clone(d.cases) {
		if !slices.ContainsFunc(want, func(m *state.Member) bool { return m.Address == w.member.Address }) {
			d.drop(w)
		}
	}
}

func (d *detector) of(address string) *watched {
	for _, w := range d.cases {
		if w.member.Address == address {
			return w
		}
	}
	return nil
}

func (d *detector) drop(w *watched) {
	d.cases = drop(d.cases, w)
	w.dropped = true
	if w.c.Interruptible() {
		w.goodbye()
	}
}

// on is a turn of watched.run.
func (w *watched) on(e suspicion.Event) {
	if w.dropped && w.c.Interruptible() {
		return
	}
	suspected := w.c.Suspects()
	var a suspicion.Action
	w.c, a = w.c.On(e, settings)
	if log := w.d.p.w.log; log != nil && (a.Do != suspicion.Open || w.c.Refusals > 0) {
		log.of(w.d.p, "about %s: %s, then %s", w.member.Address, e, a.Do)
	}
	if suspected != w.c.Suspects() {
		w.d.poke()
	}
	w.do(a)
}

// do is watched.do.
func (w *watched) do(a suspicion.Action) {
	p := w.d.p
	switch a.Do {
	case suspicion.Wait:
		w.await(a.After)
		return
	case suspicion.Listen, suspicion.Nothing:
		return
	}
	act := func() {
		if w.dropped && w.c.Interruptible() {
			return
		}
		switch a.Do {
		case suspicion.Open:
			w.open()
		case suspicion.Accuse:
			w.accuse(a.Evidence)
		case suspicion.Remove:
			w.remove()
		}
	}
	if a.After > 0 {
		p.after(a.After, act)
		return
	}
	act()
}

// open dials the member's address.
func (w *watched) open() {
	p := w.d.p
	there := p.w.host(w.member.Address)
	p.w.after(p.host.delay(), func() {
		target := there.process
		deaf := p.host.silent || there.silent || there.suspended >= 0 || target != nil && target.paused
		switch {
		case !deaf && (there.refuses || target == nil || target.leaving.closed):
			there.refused = p.w.now
			w.later(noticed, func() { w.on(suspicion.Refused) })
		case deaf:
			w.later(silenceTimeout, func() { w.on(suspicion.Silence) })
		case target.id != w.member.InstanceID:
			w.later(noticed, func() { w.on(suspicion.Other) })
		default:
			s := &stream{from: w, to: target}
			target.detector.watchers = append(target.detector.watchers, s)
			w.later(noticed, func() {
				if s.ended {
					w.on(suspicion.Silence)
					return
				}
				w.stream = s
				w.on(suspicion.Opened)
			})
		}
	})
}

// later lets the process know of something within d.
func (w *watched) later(d time.Duration, do func()) {
	p := w.d.p
	p.w.queue.push(event{at: p.w.now + p.w.between(d/2, d), p: p, do: do})
}

// end ends a stream: the watcher hears a goodbye or that it broke, and so does the one
// that is watched, unless it said so itself.
func (s *stream) end(e suspicion.Event, byWatcher, silently bool) {
	if s.ended {
		return
	}
	s.ended = true
	s.to.detector.watchers = drop(s.to.detector.watchers, s)
	if silently {
		return
	}
	if w := s.from; !byWatcher && w.stream == s {
		w.later(noticed, func() {
			if w.stream == s {
				w.stream = nil
				w.on(e)
			}
		})
	}
	if p := s.to; byWatcher || e == suspicion.Broke {
		if e == suspicion.Broke && !p.dead {
			p.w.queue.push(event{at: p.w.now + p.w.between(0, noticed), p: p, do: p.detector.doubt})
		}
	}
}

// goodbye is watched.closeWatch.
func (w *watched) goodbye() {
	if w.stream != nil {
		w.stream.end(suspicion.Goodbye, true, false)
		w.stream = nil
	}
}

// closed is what happens to the streams of a process that died: its kernel closes
// them, or the host is gone and nobody hears of it.
func (d *detector) closed(withHost bool) {
	for _, w := range d.cases {
		if w.stream != nil {
			w.stream.end(suspicion.Broke, true, withHost)
		}
	}
	for _, s := range slices.Clone(d.watchers) {
		s.end(suspicion.Broke, false, withHost)
	}
}

// doubt is Detector.doubt: a watcher was lost.
func (d *detector) doubt() {
	if d.p.keeper.current {
		if log := d.p.w.log; log != nil {
			log.of(d.p, "has lost a watcher, and asks etcd for a confirmation")
		}
		d.p.keeper.session.doubt(grace)
	}
}

// refute is a turn of Detector.Answer.
func (d *detector) refute() {
	d.signalled = false
	d.refuteAll(suspicion.Against(d.p.mirror.snapshot, d.p.host.address, d.p.id))
}

func (d *detector) refuteAll(against []*state.Accusation) {
	p := d.p
	if len(against) == 0 {
		d.refuting = false
		d.signal(d.signalled)
		return
	}
	p.change(refuting, refuteTimeout, change.Refute(p.w.keys, against[0]), func(_ answer, err error) {
		if err != nil {
			d.refuting = false
			p.after(refuteRetry, func() { d.signal(true) })
			return
		}
		p.w.checks.count(Refuted)
		d.refuteAll(against[1:])
	})
}

// signal makes Answer look, if it does not do so already.
func (d *detector) signal(look bool) {
	d.signalled = d.signalled || look
	if d.signalled && !d.refuting {
		d.refuting = true
		d.p.soon(d.refute)
	}
}

// accuse is watched.accuse.
func (w *watched) accuse(evidence string) {
	p := w.d.p
	if !p.keeper.current || !p.keeper.valid() {
		w.on(suspicion.NotAccused)
		return
	}
	p.accuse(w.member, p.keeper.session.lease, evidence, func(written int64, changed bool, err error) {
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

// accuse is Accuser.accuse.
func (p *process) accuse(m *state.Member, lease int64, evidence string, then func(written int64, changed bool, err error)) {
	c := change.Accuse(p.w.keys, m, p.id, lease, evidence)
	p.call(accusing, accuseTimeout, func(e *etcd) (answer, error) {
		a, err := e.execute(p.host, c)
		if err == nil && a.held {
			e.w.checks.accused(e.w, m, a.revision)
		}
		return a, err
	}, func(a answer, err error) {
		then(a.revision, err == nil && !a.held, err)
	})
}

// await gives the accused its grace.
func (w *watched) await(d time.Duration) {
	w.waiting++
	mine := w.waiting
	w.d.p.after(d, func() {
		if w.waiting == mine {
			w.waiting++
			w.on(suspicion.GraceOver)
		}
	})
	w.answeredFor(w.d.p.mirror.snapshot)
}

// answeredFor ends the grace when the accusation is seen answered.
func (w *watched) answeredFor(s *state.Snapshot) {
	p := w.d.p
	if w.c.Phase != suspicion.Waiting || s.Revision < w.written || s.Accused(w.member.Address, p.id, w.written) {
		return
	}
	mine := w.waiting
	p.soon(func() {
		if w.waiting != mine {
			return
		}
		w.waiting++
		if now := s.Member(w.member.Address); now == nil || now.Incarnation != w.member.Incarnation {
			w.on(suspicion.Unregistered)
			return
		}
		w.on(suspicion.Refuted)
	})
}

type struck int

const (
	removed struck = iota
	refuted
	changed
	unknown
)

func (w *watched) remove() {
	w.d.p.strike(w.member, w.written, func(s struck) {
		w.on([...]suspicion.Event{suspicion.Removed, suspicion.Refuted, suspicion.Unregistered, suspicion.NotRemoved}[s])
	})
}

// strike is Accuser.strike.
func (p *process) strike(m *state.Member, written int64, then func(struck)) {
	c := change.Remove(p.w.keys, m, p.id, written)
	p.call(removing, accuseTimeout, func(e *etcd) (answer, error) {
		e.author = cause{p: p, by: removal, member: m}
		a, err := e.execute(p.host, c)
		if err == nil && a.held {
			e.w.checks.removed(e.w, m, written)
		}
		return a, err
	}, func(a answer, err error) {
		switch {
		case err != nil:
			then(unknown)
		case a.held:
			p.call(revoking, accuseTimeout, func(e *etcd) (answer, error) {
				e.author = cause{p: p, by: removal, member: m}
				return e.revoke(p.host, m.Lease)
			}, func(answer, error) { then(removed) })
		case len(a.found) == 0 || a.found[0].CreateRevision != m.Incarnation:
			then(changed)
		default:
			then(refuted)
		}
	})
}
