package modeletcd

import "time"

// member is one member of etcd. The state that all members agree on is in Etcd; a member holds only its own
// view.
type member struct {
	stopped bool     // its process stands still
	cut     bool     // cut off from the other members
	leads   bool     // considers itself the leader
	term    uint64   // of the last entry it applied; reported in headers
	arrived []func() // requests that arrived while it is stopped
	learns  *time.Timer
}

// up reports whether the member runs and reaches the others.
func (m *member) up() bool { return !m.stopped && !m.cut }

// Bounds on the time that members wait for their leader before they elect another one, and on the time until a
// deposed leader that can be reached learns of that.
const (
	leastElection, mostElection = time.Second, 2 * time.Second
	leastNews, mostNews         = 0, 50 * time.Millisecond
)

// NewCluster returns an etcd of n members, of which the first one leads. between draws the delays.
//
// Only the leader renews leases and ends them. If it is stopped or cut off from a majority, the others elect
// another one after an election time-out, which gives every lease its whole TTL again. The deposed leader
// considers itself the leader until it learns of that, and answers renewals meanwhile. A leader that is cut off
// from the others gives up by itself within an election time-out. Requests that need a majority wait for a
// leader. A follower passes renewals on.
//
// Not modelled: a deposed leader that has leases revoked (etcd's issue 15247), learners, members that answer
// reads from their own state alone, elections without a winner.
func NewCluster(n int, between func(least, most time.Duration) time.Duration) *Etcd {
	e := New()
	e.between = between
	for len(e.members) < n {
		e.members = append(e.members, &member{term: e.term})
	}
	return e
}

// Leader returns the index of the member that leads, or -1 while none does.
func (e *Etcd) Leader() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, m := range e.members {
		if m == e.leader {
			return i
		}
	}
	return -1
}

// Stop stops a member's process, or lets it continue. When it continues, it first answers the requests that
// arrived meanwhile, with the knowledge it had.
func (e *Etcd) Stop(member int, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[member]
	m.stopped = on
	if !on {
		arrived := m.arrived
		m.arrived = nil
		for _, do := range arrived {
			do()
		}
	}
	e.reconsider()
}

// Away stops all members, as when etcd is down, or starts them again. On the start they elect one of them at
// once, which gives every lease its whole TTL again.
func (e *Etcd) Away(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		m.stopped, m.leads = on, false
	}
	e.leader = nil
	if !on {
		for _, m := range e.members {
			arrived := m.arrived
			m.arrived = nil
			for _, do := range arrived {
				do()
			}
		}
		e.elect(e.members[0])
	}
	e.reconsider()
}

// Term returns the raft term.
func (e *Etcd) Term() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// Elect lets a member that is up lead in a new term, as if it had won an election. It may be the present
// leader.
func (e *Etcd) Elect(member int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.members[member]; m.up() {
		if e.leader != nil {
			e.leader.leads = false
		}
		e.elect(m)
		e.reconsider()
	}
}

// Cut cuts a member off from the others, or reconnects it. Clients reach it in either case.
func (e *Etcd) Cut(member int, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members[member].cut = on
	e.reconsider()
}

// Transfer transfers etcd's leadership to another member that is up, as etcdctl move-leader does.
func (e *Etcd) Transfer(to int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.members[to]; e.leader != nil && e.leader.up() && m.up() && m != e.leader {
		e.leader.leads = false
		e.elect(m)
		e.reconsider()
	}
}

// reconsider applies the consequences of a member's stop, start, cut or reconnection. Its callers hold the
// lock, as do those of all functions below.
func (e *Etcd) reconsider() {
	for _, m := range e.members {
		e.learn(m)
	}
	if e.leader != nil && e.leader.up() || e.majority() == nil {
		if e.election != nil {
			e.election.Stop()
			e.election = nil
		}
	} else if e.election == nil {
		e.election = e.after(leastElection, mostElection, func() {
			e.election = nil
			if m := e.majority(); m != nil && (e.leader == nil || !e.leader.up()) {
				e.elect(m)
				e.reconsider()
			}
		})
	}
	if e.leader == nil || !e.leader.up() {
		return
	}
	e.endLeases()
	pending := e.pending
	e.pending = nil
	for _, r := range pending {
		e.consent(r.m, r.do)
	}
	for _, c := range e.conns {
		c.tell()
	}
}

// learn schedules the moment when a member learns that it no longer leads.
func (e *Etcd) learn(m *member) {
	least, most := time.Duration(leastNews), mostNews
	if m.cut {
		least, most = leastElection, mostElection
	}
	if !m.leads || m.stopped || m == e.leader && !m.cut {
		if m.learns != nil {
			m.learns.Stop()
			m.learns = nil
		}
		return
	}
	if m.learns != nil && !m.cut {
		m.learns.Stop() // it can learn sooner now
		m.learns = nil
	}
	if m.learns == nil {
		m.learns = e.after(least, most, func() {
			m.learns = nil
			if m.stopped || m == e.leader && !m.cut {
				return
			}
			m.leads = false
			if m == e.leader {
				e.leader = nil
			}
			e.reconsider()
		})
	}
}

// majority returns a member that could lead, or nil if too few members are up.
func (e *Etcd) majority() *member {
	var up []*member
	for _, m := range e.members {
		if m.up() {
			up = append(up, m)
		}
	}
	if 2*len(up) <= len(e.members) {
		return nil
	}
	return up[int(e.between(0, time.Duration(len(up))))%len(up)]
}

// elect makes a member the leader of a new term, and gives every lease its whole TTL again.
func (e *Etcd) elect(m *member) {
	e.term++
	e.leader, m.leads, m.term, e.elected = m, true, e.term, e.store.revision
	for _, l := range e.leases {
		l.timer.Reset(l.renew())
	}
}

// after calls do later, with the lock held.
func (e *Etcd) after(least, most time.Duration, do func()) *time.Timer {
	return time.AfterFunc(e.between(least, most), func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		do()
	})
}

// arrive calls do at a member, now or when the member runs again.
func (e *Etcd) arrive(m *member, do func()) {
	if m.stopped {
		m.arrived = append(m.arrived, do)
		return
	}
	do()
}

// waits is a request at a member that waits for a leader.
type waits struct {
	m  *member
	do func()
}

// consent calls do for a request to a member that needs a majority, as soon as there is a leader that the
// member reaches. The member has then applied entries of the present term.
func (e *Etcd) consent(m *member, do func()) {
	if !m.up() || e.leader == nil || !e.leader.up() || m.leads && m != e.leader {
		e.pending = append(e.pending, waits{m, do})
		return
	}
	m.term = e.term
	do()
}
