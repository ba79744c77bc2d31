package modeletcd

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// lease runs out exactly when its TTL has passed: etcd is never sooner.
type lease struct {
	id, ttl int64
	term    uint64 // in which it was granted
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
	if e.leases[l.id] == l && e.leader != nil && e.leader.up() {
		e.endLease(l)
	}
}

// endLease ends a lease that has run out, if it has.
func (e *Etcd) endLease(l *lease) {
	if !time.Now().Before(l.ends) {
		_, _ = carryOut(e, nil, func() (any, error) { return e.revoke(l.id) })
	}
}

// endLeases ends those that ran out while the leader stood still.
func (e *Etcd) endLeases() {
	for _, id := range slices.Sorted(maps.Keys(e.leases)) {
		e.endLease(e.leases[id])
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
		_, _ = e.store.remove(&pb.DeleteRangeRequest{Key: []byte(key)}, revision)
	}
	delete(e.leases, id)
	return &pb.LeaseRevokeResponse{Header: e.header()}, nil
}

// keepAlive has a member renew a lease, or pass that on to the leader. It answers with a TTL of nothing where
// there is no such lease, and in the header with what it knew before, as etcd does. A member that was
// deposed and does not know it renews the lease for itself: nobody hears of that.
func (e *Etcd) keepAlive(m *member, r *pb.LeaseKeepAliveRequest, answer func(*pb.LeaseKeepAliveResponse, error)) {
	resp := &pb.LeaseKeepAliveResponse{Header: e.header(), ID: r.ID}
	resp.Header.RaftTerm = m.term
	renew := func(by *member) {
		if l := e.leases[r.ID]; l != nil {
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
	e.passOn(m, renew)
}

// passOn has the leader do something that a follower was asked, which may wait until there is one.
func (e *Etcd) passOn(m *member, do func(by *member)) {
	leader := e.leader
	if m.cut || leader == nil || leader.cut {
		e.pending = append(e.pending, waits{m, func() { e.passOn(m, do) }})
		return
	}
	e.arrive(leader, func() {
		if !leader.leads {
			e.passOn(m, do)
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

// Revoke ends a lease out of band.
func (e *Etcd) Revoke(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = carryOut(e, nil, func() (any, error) { return e.revoke(id) })
}

// Grant grants a lease out of band, for so many seconds.
func (e *Etcd) Grant(ttl int64) (id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	resp, err := e.grant(&pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return 0
	}
	return resp.ID
}

// Lease is what etcd's leader knows of a lease.
type Lease struct {
	ID      int64
	Granted uint64 // the raft term
	Ends    time.Time
}

// Leases are all that stand, by id.
func (e *Etcd) Leases() []Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Lease, 0, len(e.leases))
	for _, id := range slices.Sorted(maps.Keys(e.leases)) {
		all = append(all, Lease{ID: id, Granted: e.leases[id].term, Ends: e.leases[id].ends})
	}
	return all
}

// Extend gives every lease its whole TTL again, as etcd does when it elects a leader.
func (e *Etcd) Extend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.leases {
		l.timer.Reset(l.renew())
	}
}

// Close ends every lease's time: nothing runs out any more.
func (e *Etcd) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.leases {
		l.timer.Stop()
	}
}
