package modeletcd

import "time"

// member is one member of etcd. The state that all members agree on is in Etcd; a member holds only its own
// view.
type member struct {
	stopped         bool     // its process stands still
	cut             bool     // cut off from the other members
	leads           bool     // considers itself the leader
	term            uint64   // of the last entry it applied; reported in headers
	pendingRequests []func() // requests that arrived while it is stopped
	learns          *time.Timer
}

// isUp reports whether the member runs and reaches the others.
func (m *member) isUp() bool { return !m.stopped && !m.cut }

// Bounds on the time that members wait for their leader before they elect another one, and on the time until a
// deposed leader that can be reached learns of that.
const (
	minElection, maxElection             = time.Second, 2 * time.Second
	minDemotionNotice, maxDemotionNotice = 0, 50 * time.Millisecond
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
	e.drawBetween = between
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

// SetStopped stops a member's process, or lets it continue. When it continues, it first answers the requests that
// arrived meanwhile, with the knowledge it had.
func (e *Etcd) SetStopped(member int, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[member]
	m.stopped = on
	if !on {
		arrived := m.pendingRequests
		m.pendingRequests = nil
		for _, do := range arrived {
			do()
		}
	}
	e.updateLeader()
}

// SetDown stops all members, as when etcd is down, or starts them again. On the start they elect one of them at
// once, which gives every lease its whole TTL again.
func (e *Etcd) SetDown(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		m.stopped, m.leads = on, false
	}
	e.leader = nil
	if !on {
		for _, m := range e.members {
			arrived := m.pendingRequests
			m.pendingRequests = nil
			for _, do := range arrived {
				do()
			}
		}
		e.elect(e.members[0])
	}
	e.updateLeader()
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
	if m := e.members[member]; m.isUp() {
		if e.leader != nil {
			e.leader.leads = false
		}
		e.elect(m)
		e.updateLeader()
	}
}

// SetCut cuts a member off from the others, or reconnects it. Clients reach it in either case.
func (e *Etcd) SetCut(member int, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members[member].cut = on
	e.updateLeader()
}

// Transfer transfers etcd's leadership to another member that is up, as etcdctl move-leader does.
func (e *Etcd) Transfer(to int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.members[to]; e.leader != nil && e.leader.isUp() && m.isUp() && m != e.leader {
		e.leader.leads = false
		e.elect(m)
		e.updateLeader()
	}
}

// updateLeader applies the consequences of a member's stop, start, cut or reconnection. Its callers hold the
// lock, as do those of all functions below.
func (e *Etcd) updateLeader() {
	for _, m := range e.members {
		e.scheduleDemotion(m)
	}
	if e.leader != nil && e.leader.isUp() || e.electableMember() == nil {
		if e.election != nil {
			e.election.Stop()
			e.election = nil
		}
	} else if e.election == nil {
		e.election = e.runLater(minElection, maxElection, func() {
			e.election = nil
			if m := e.electableMember(); m != nil && (e.leader == nil || !e.leader.isUp()) {
				e.elect(m)
				e.updateLeader()
			}
		})
	}
	if e.leader == nil || !e.leader.isUp() {
		return
	}
	e.expireOverdue()
	pending := e.pending
	e.pending = nil
	for _, r := range pending {
		e.runWithMajority(r.m, r.do)
	}
	for _, c := range e.conns {
		c.sendEvents()
	}
}

// scheduleDemotion schedules the moment when a member learns that it no longer leads.
func (e *Etcd) scheduleDemotion(m *member) {
	least, most := time.Duration(minDemotionNotice), maxDemotionNotice
	if m.cut {
		least, most = minElection, maxElection
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
		m.learns = e.runLater(least, most, func() {
			m.learns = nil
			if m.stopped || m == e.leader && !m.cut {
				return
			}
			m.leads = false
			if m == e.leader {
				e.leader = nil
			}
			e.updateLeader()
		})
	}
}

// electableMember returns a member that could lead, or nil if too few members are up.
func (e *Etcd) electableMember() *member {
	var up []*member
	for _, m := range e.members {
		if m.isUp() {
			up = append(up, m)
		}
	}
	if 2*len(up) <= len(e.members) {
		return nil
	}
	return up[int(e.drawBetween(0, time.Duration(len(up))))%len(up)]
}

// elect makes a member the leader of a new term, and gives every lease its whole TTL again.
func (e *Etcd) elect(m *member) {
	e.term++
	e.leader, m.leads, m.term, e.elected = m, true, e.term, e.store.revision
	for _, l := range e.leases {
		l.timer.Reset(l.renew())
	}
}

// runLater calls do later, with the lock held.
func (e *Etcd) runLater(least, most time.Duration, do func()) *time.Timer {
	return time.AfterFunc(e.drawBetween(least, most), func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		do()
	})
}

// deliverToMember calls do at a member, now or when the member runs again.
func (e *Etcd) deliverToMember(m *member, do func()) {
	if m.stopped {
		m.pendingRequests = append(m.pendingRequests, do)
		return
	}
	do()
}

// pendingRequest is a request at a member that waits for a leader.
type pendingRequest struct {
	m  *member
	do func()
}

// runWithMajority calls do for a request to a member that needs a majority, as soon as there is a leader that the
// member reaches. The member has then applied entries of the present term.
func (e *Etcd) runWithMajority(m *member, do func()) {
	if !m.isUp() || e.leader == nil || !e.leader.isUp() || m.leads && m != e.leader {
		e.pending = append(e.pending, pendingRequest{m, do})
		return
	}
	m.term = e.term
	do()
}
