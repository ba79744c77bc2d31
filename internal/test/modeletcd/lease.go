package modeletcd

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// lease expires exactly when its TTL has passed, because etcd never ends a lease earlier.
type lease struct {
	id, ttl int64
	term    uint64 // raft term in which it was granted
	keys    map[string]bool
	ends    time.Time
	timer   *time.Timer
}

func (e *Etcd) grant(r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if r.ID != 0 {
		return nil, errNotModelled
	}
	if e.noSpace {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	e.lastID++
	l := &lease{id: e.lastID, ttl: r.TTL, term: e.term, keys: map[string]bool{}}
	e.leases[l.id] = l
	l.timer = time.AfterFunc(l.renew(), func() { e.expire(l) })
	return &pb.LeaseGrantResponse{Header: e.header(), ID: l.id, TTL: l.ttl}, nil
}

func (e *Etcd) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: e.store.revision} }

func (l *lease) renew() time.Duration {
	ttl := time.Duration(l.ttl) * time.Second
	l.ends = time.Now().Add(ttl)
	return ttl
}

func (e *Etcd) expire(l *lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leases[l.id] == l && e.leader != nil && e.leader.isUp() {
		e.expireIfDue(l)
	}
}

// expireIfDue ends a lease if it has expired.
func (e *Etcd) expireIfDue(l *lease) {
	if !time.Now().Before(l.ends) {
		_, _ = executeRequest(e, nil, func() (any, error) { return e.revoke(l.id) })
	}
}

// expireOverdue ends the leases that expired while the leader stood still.
func (e *Etcd) expireOverdue() {
	for _, id := range slices.Sorted(maps.Keys(e.leases)) {
		e.expireIfDue(e.leases[id])
	}
}

func (e *Etcd) revoke(id int64) (*pb.LeaseRevokeResponse, error) {
	l := e.leases[id]
	if l == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	l.timer.Stop()
	revision := e.store.revision + 1
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		_, _ = e.store.removeRange(&pb.DeleteRangeRequest{Key: []byte(key)}, revision)
	}
	delete(e.leases, id)
	return &pb.LeaseRevokeResponse{Header: e.header()}, nil
}

// keepAlive lets a member renew a lease, or pass the renewal on to the leader. As in etcd, it answers with TTL
// 0 if the lease does not exist, and its header has the revision from before. A deposed leader that does not
// know it yet renews the lease only in its own view; no other member learns of that. It does not find a lease that was
// granted since.
func (e *Etcd) keepAlive(m *member, r *pb.LeaseKeepAliveRequest, answer func(*pb.LeaseKeepAliveResponse, error)) {
	resp := &pb.LeaseKeepAliveResponse{Header: e.header(), ID: r.ID}
	resp.Header.RaftTerm = m.term
	renew := func(by *member) {
		if l := e.leases[r.ID]; l != nil && (by == e.leader || l.term <= by.term) {
			if by == e.leader {
				l.timer.Reset(l.renew())
			}
			resp.TTL = l.ttl
		}
		answer(resp, nil)
	}
	if m.leads {
		renew(m)
		return
	}
	e.forwardToLeader(m, renew)
}

// forwardToLeader lets the leader execute a request that a follower got. The request waits while there is no leader.
func (e *Etcd) forwardToLeader(m *member, do func(by *member)) {
	leader := e.leader
	if m.cut || leader == nil || leader.cut {
		e.pending = append(e.pending, pendingRequest{m, func() { e.forwardToLeader(m, do) }})
		return
	}
	e.deliverToMember(leader, func() {
		if !leader.leads {
			e.forwardToLeader(m, do)
			return
		}
		do(leader)
	})
}

func (e *Etcd) timeToLive(r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	l := e.leases[r.ID]
	if l == nil {
		return &pb.LeaseTimeToLiveResponse{Header: e.header(), ID: r.ID, TTL: -1}, nil
	}
	resp := &pb.LeaseTimeToLiveResponse{Header: e.header(), ID: r.ID, TTL: int64(time.Until(l.ends).Seconds()),
		GrantedTTL: l.ttl}
	if r.Keys {
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			resp.Keys = append(resp.Keys, []byte(key))
		}
	}
	return resp, nil
}

// Revoke revokes a lease out of band.
func (e *Etcd) Revoke(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = executeRequest(e, nil, func() (any, error) { return e.revoke(id) })
}

// Grant grants a lease out of band, with a TTL in seconds.
func (e *Etcd) Grant(ttl int64) (id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	resp, err := e.grant(&pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return 0
	}
	return resp.ID
}

// Lease describes a lease as etcd's leader sees it.
type Lease struct {
	ID      int64
	Granted uint64 // the raft term
	Ends    time.Time
}

// Leases returns all existing leases, by id.
func (e *Etcd) Leases() []Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Lease, 0, len(e.leases))
	for _, id := range slices.Sorted(maps.Keys(e.leases)) {
		all = append(all, Lease{ID: id, Granted: e.leases[id].term, Ends: e.leases[id].ends})
	}
	return all
}

// ExtendLeases gives every lease its whole TTL again, as etcd does when it elects a leader.
func (e *Etcd) ExtendLeases() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.leases {
		l.timer.Reset(l.renew())
	}
}

// Close stops the timers of all leases; none expires any more.
func (e *Etcd) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.leases {
		l.timer.Stop()
	}
}
