package modeletcd

import "time"

// member is one member of etcd. What all of them agree on is in Etcd; a member has what it alone knows, or
// does not know yet.
type member struct {
	stopped bool     // its process stands still
	cut     bool     // from the other members
	leads   bool     // it takes itself for the leader
	term    uint64   // of the last entry that it applied: what headers say
	arrived []func() // while it is stopped
	learns  *time.Timer
}

// up reports whether the member runs and reaches the others.
func (m *member) up() bool { return !m.stopped && !m.cut }

// How long members wait for their leader before they elect another, and how soon one that was deposed
// hears of it once it can, at least and at most.
const (
	leastElection, mostElection = time.Second, 2 * time.Second
	leastNews, mostNews         = 0, 50 * time.Millisecond
)

// NewCluster is an etcd of n members, of which the first one leads, and that draws how long things
// take from between.
//
// Its leader alone renews leases and ends them. When a majority misses it, because it is stopped or cut
// off, they elect another after an election time-out, which gives every lease its whole TTL. The one that
// was deposed takes itself for the leader until it hears of that, and answers renewals all the while;
// one that is cut off from the others gives up within an election time-out by itself. All that needs a
// majority waits for a leader. A follower passes renewals on.
//
// Not modelled: a leader that was deposed and has leases revoked (etcd's issue 15247), learners, members that
// answer reads of their own state alone, elections that nobody wins.
func NewCluster(n int, between func(least, most time.Duration) time.Duration) *Etcd {
	e := New()
	e.between = between
	for len(e.members) < n {
		e.members = append(e.members, &member{term: e.term})
	}
	return e
}

// Leader is which member leads, -1 while none does.
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

// Stop has a member's process stand still, or go on. When it goes on, it first answers what came
// meanwhile, knowing what it knew.
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

// Away has all members stop, as where etcd is down, or start again: they elect one of them at once, which gives
// every lease its whole TTL.
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

// Term is the raft term.
func (e *Etcd) Term() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// Elect has a member that is up lead in another term, also the one that leads: as after an election that it won.
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

// Cut cuts a member off from the others, or not any more. Clients reach it all the same.
func (e *Etcd) Cut(member int, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members[member].cut = on
	e.reconsider()
}

// Transfer hands the leadership of etcd to another member that is up, as etcdctl move-leader does.
func (e *Etcd) Transfer(to int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.members[to]; e.leader != nil && e.leader.up() && m.up() && m != e.leader {
		e.leader.leads = false
		e.elect(m)
		e.reconsider()
	}
}

// reconsider is called when a member stopped, went on, was cut off or not any more. The lock is held, as in
// all that follows.
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

// learn has a member learn in time that it leads no more.
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
		m.learns.Stop() // it can learn sooner
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

// majority is somebody who could lead, nil if too few members are up.
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

// elect makes a member the leader: it begins a term, and gives every lease its whole TTL.
func (e *Etcd) elect(m *member) {
	e.term++
	e.leader, m.leads, m.term, e.elected = m, true, e.term, e.store.revision
	for _, l := range e.leases {
		l.timer.Reset(l.renew())
	}
}

// after does something later, with the lock held.
func (e *Etcd) after(least, most time.Duration, do func()) *time.Timer {
	return time.AfterFunc(e.between(least, most), func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		do()
	})
}

// arrive does something at a member, when it runs.
func (e *Etcd) arrive(m *member, do func()) {
	if m.stopped {
		m.arrived = append(m.arrived, do)
		return
	}
	do()
}

// waits is a request that waits for a leader, at a member.
type waits struct {
	m  *member
	do func()
}

// consent does something that a majority must agree to, asked of a member: when there is a leader, that
// the member is in touch with. What the member has applied then is of the present term.
func (e *Etcd) consent(m *member, do func()) {
	if !m.up() || e.leader == nil || !e.leader.up() || m.leads && m != e.leader {
		e.pending = append(e.pending, waits{m, do})
		return
	}
	m.term = e.term
	do()
}
