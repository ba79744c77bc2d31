package simulation

import (
	"slices"
	"strings"
	"time"
)

// lease is one of etcd's leases.
type lease struct {
	id   int64
	ttl  time.Duration
	term uint64        // of raft, in which it was granted
	ends time.Duration // at which instant, if it is not renewed
}

// revokeLate is how late etcd can be to notice that a lease ended: it looks every half
// second.
const revokeLate = 500 * time.Millisecond

func (e *etcd) lease(id int64) *lease {
	for _, l := range e.leases {
		if l.id == id {
			return l
		}
	}
	return nil
}

// grant makes a lease.
func (e *etcd) grant() answer {
	e.granted++
	l := &lease{id: 0x70 + e.granted, ttl: e.w.ttl, term: e.term, ends: e.w.now + e.w.ttl}
	e.leases = append(e.leases, l)
	e.watchOver(l)
	return answer{revision: e.revision, lease: l.id, term: e.term}
}

// watchOver revokes l when it has ended.
func (e *etcd) watchOver(l *lease) {
	e.w.at(l.ends+e.w.between(0, revokeLate), func() {
		switch {
		case e.lease(l.id) == nil:
		case e.away || e.w.now < l.ends:
			if e.away {
				l.ends = max(l.ends, e.w.now+time.Millisecond)
			}
			e.watchOver(l)
		default:
			if e.w.log != nil {
				e.w.log.say("etcd: lease %x has run out", l.id)
			}
			e.author = cause{by: expiry}
			e.drop(l)
		}
	})
}

// renew gives a lease another TTL.
func (e *etcd) renew(h *host, id int64) (answer, error) {
	l := e.lease(id)
	switch {
	case l == nil || e.w.now >= l.ends:
		return answer{}, errNoLease
	case h.denied && e.holdsDenied(l):
		return answer{}, errDenied
	}
	l.ends = e.w.now + l.ttl
	return answer{revision: e.revision}, nil
}

// revoke ends a lease and deletes its keys.
func (e *etcd) revoke(h *host, id int64) (answer, error) {
	l := e.lease(id)
	switch {
	case l == nil:
		return answer{}, errNoLease
	case h != nil && h.denied && e.holdsDenied(l):
		return answer{}, errDenied
	}
	e.drop(l)
	return answer{revision: e.revision}, nil
}

// holdsDenied reports whether a candidate's key is on the lease: newer servers refuse
// to renew or revoke a lease whose keys the client may not write.
func (e *etcd) holdsDenied(l *lease) bool {
	for _, kv := range e.keys {
		if kv.Lease == l.id && strings.HasPrefix(kv.Key, e.w.keys.Queue()) {
			return true
		}
	}
	return false
}

func (e *etcd) drop(l *lease) {
	e.leases = slices.DeleteFunc(e.leases, func(x *lease) bool { return x == l })
	next := e.revision + 1
	for i := 0; i < len(e.keys); {
		if e.keys[i].Lease == l.id {
			e.remove(e.keys[i].Key, next)
			continue
		}
		i++
	}
	e.notify()
}

// elect changes etcd's own leader, which gives every lease another TTL.
func (e *etcd) elect() {
	e.term++
	for _, l := range e.leases {
		l.ends = e.w.now + l.ttl
	}
}
