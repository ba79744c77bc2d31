package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
	"github.com/goverse/goverse/internal/txn"
)

// member stands for package membership: the node key, and the record in
// it.
type member struct {
	p           *process
	record      state.Record // as it should be
	session     *session
	incarnation int64 // 0 while not registered
	distance    suspicion.Distance
	awaiting    func(s *state.Snapshot) bool
	poked       bool

	revokedEarly bool // the last session was lost so
}

const (
	registerRetry   = 100 * time.Millisecond
	awaitTimeout    = time.Second
	grace           = 100 * time.Millisecond
	identifyTimeout = time.Second
	probes          = 6
)

func newRecord(p *process) state.Record {
	r := state.Record{InstanceID: p.id, Observer: p.host.roles.observer, Shards: p.host.roles.shards}
	if p.host.roles.excluded {
		r.Labels = excluded
	}
	return r
}

// register is Membership.Register: the node key is only ever created where none
// exists.
func (m *member) register(s *session) {
	m.incarnation, m.session = 0, s
	m.record.Lease, m.record.TTL, m.record.Term = s.lease, int64(m.p.w.ttl/time.Second), s.term
	m.record.RevokedEarly = m.revokedEarly
	m.place(s)
}

// place is Membership.measure.
func (m *member) place(s *session) {
	p := m.p
	if s.lost != "" {
		return
	}
	began, left := p.host.mono(), probes
	var trips []time.Duration
	for range probes {
		p.call(toMeasure, requestTimeout, func(e *etcd) (answer, error) { return answer{revision: e.revision}, nil },
			func(_ answer, err error) {
				if err == nil {
					trips = append(trips, durationOf(p.host.mono()-began))
				}
				if left--; left > 0 || s.lost != "" {
					return
				}
				if len(trips) == 0 {
					p.after(registerRetry, func() { m.place(s) })
					return
				}
				m.moved(suspicion.At(p.w.ttl, trips...))
				m.tryRegister(s)
			})
	}
}

// measured is Membership.remeasure: the read of a renewal round took so long.
func (m *member) measured(read time.Duration) {
	if m.incarnation == 0 {
		return
	}
	before := m.record.RoundTripMS
	m.moved(m.distance.Measured(m.p.host.time(), read))
	if m.record.RoundTripMS != before {
		m.p.w.checks.count(Moved)
		m.poke()
	}
}

func (m *member) moved(d suspicion.Distance) {
	m.distance = d
	m.record.RoundTripMS = d.RoundTrip().Milliseconds()
}

func (m *member) tryRegister(s *session) {
	p := m.p
	if s.lost != "" {
		return
	}
	known := p.mirror.known
	c := txn.Register(p.w.keys, p.host.address, m.record)
	p.call(toRegister, requestTimeout, func(e *etcd) (answer, error) {
		a, err := e.execute(p.host, c)
		if err == nil && a.held {
			e.w.checks.registered(p, e.get(p.w.keys.Node(p.host.address)), a.revision)
		}
		return a, err
	}, func(a answer, err error) {
		if err == nil {
			p.mirror.saw(a.revision, known)
		}
		switch {
		case s.lost != "":
		case err != nil:
			m.later(s)
		case a.held:
			m.registered(s, a.revision)
		case len(a.found) == 0:
			m.tryRegister(s)
		default:
			record, _ := state.DecodeRecord(a.found[0].Value)
			there := &state.Member{Address: p.host.address, Incarnation: a.found[0].CreateRevision,
				KeyLease: a.found[0].Lease, Record: record}
			if there.InstanceID == p.id && there.Lease == s.lease {
				m.registered(s, there.Incarnation)
				return
			}
			m.settle(s, there)
		}
	})
}

func (m *member) later(s *session) { m.p.after(registerRetry, func() { m.tryRegister(s) }) }

// settle is Membership.free: somebody holds the address.
func (m *member) settle(s *session, there *state.Member) {
	switch {
	case there.InstanceID == m.p.id:
		m.awaitGone(s, there) // an earlier session of this process
	case !m.p.host.refuses && !m.p.host.silent && m.p.host.roles.detect && !suspicion.LeftToLease(there):
		m.removePredecessor(s, there)
	default:
		m.p.after(identifyTimeout, func() { m.awaitGone(s, there) })
	}
}

// awaitGone waits for a second until there is gone, and tries again in any case.
func (m *member) awaitGone(s *session, there *state.Member) {
	done := false
	end := func() {
		if !done {
			done = true
			m.awaiting = nil
			m.tryRegister(s)
		}
	}
	m.awaiting = func(snap *state.Snapshot) bool {
		now := snap.Member(there.Address)
		return snap.Revision >= there.Incarnation && (now == nil || now.Incarnation != there.Incarnation)
	}
	met := m.awaiting
	m.p.after(awaitTimeout, func() {
		if !done {
			done = true
			m.later(s)
		}
	})
	m.awaiting = func(snap *state.Snapshot) bool {
		if met(snap) {
			m.p.soon(end)
		}
		return false
	}
	m.awaiting(m.p.mirror.snapshot)
}

func (m *member) published(s *state.Snapshot) {
	if m.awaiting != nil {
		m.awaiting(s)
	}
}

// removePredecessor is Accuser.Remove against the instance that had the address: it
// answers as this process, so the other one is probably gone.
func (m *member) removePredecessor(s *session, there *state.Member) {
	p := m.p
	began := p.host.mono()
	p.accuse(there, s.lease, "its address answers as another instance", func(written int64, changed bool, err error) {
		switch {
		case s.lost != "":
		case err != nil:
			m.later(s)
		case changed:
			m.tryRegister(s)
		default:
			p.after(suspicion.Grace(grace, durationOf(p.host.mono()-began), there), func() {
				p.removeAccused(there, written, func(removed) { m.later(s) })
			})
		}
	})
}

func (m *member) registered(s *session, incarnation int64) {
	s.protect(m.p.w.keys.Node(m.p.host.address), incarnation, nil)
	m.incarnation = incarnation
	if log := m.p.w.log; log != nil {
		log.of(m.p, "is registered, incarnation %d", incarnation)
	}
	m.poke()
	m.p.keeper.registered(s)
}

// want changes the record as it should be.
func (m *member) want(alter func(*state.Record)) {
	alter(&m.record)
	m.poke()
}

func (m *member) poke() {
	if !m.poked {
		m.poked = true
		m.p.soon(m.reconcile)
	}
}

// reconcile is Membership.reconcile: it compares the snapshot with what should be.
func (m *member) reconcile() {
	m.poked = false
	p, s, snap := m.p, m.session, m.p.mirror.snapshot
	if snap == nil || m.incarnation == 0 || s.lost != "" || snap.Revision < m.incarnation {
		return
	}
	own := snap.Member(p.host.address)
	switch {
	case own == nil || own.Incarnation != m.incarnation:
		s.checkNow() // the renewal says why, and ends the session
		return
	case own.KeyLease == s.lease && own.Encode() == m.record.Encode():
		return
	}
	m.poked = true // one at a time, and again after a while
	update := txn.UpdateRecord(p.w.keys, p.host.address, m.record, own.ModRevision)
	p.change(toRecord, requestTimeout, update, func(answer, error) {
		p.after(registerRetry, m.reconcile)
	})
}
