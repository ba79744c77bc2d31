package embedetcd

import "sync"

// IsolateMember cuts member i off from the other members, as a network does that
// still lets its clients through: from now on it neither hears nor is heard by them,
// until RejoinMember. Stopping and restarting members changes nothing about that: an
// isolated member that is restarted does not serve before it has rejoined. The call
// returns at once, before anybody has noticed; repeating it does nothing.
//
// What then happens is etcd's own doing. Within two election time-outs the member
// knows of no leader any more. If it led itself, it renews leases until then, which
// counts for nothing: the others elect another one, and that gives every lease a fresh
// TTL and an election time-out. The member goes on answering reads that are not
// linearizable, from a past that grows older. All else has to wait, for 5 s and two
// election time-outs, and fails then. What asks for clientv3.WithRequireLeader is refused
// at once, and an open watch that did so ends within another three election time-outs;
// one that did not is just silent.
//
// What is dropped are raft's messages, both ways. What members ask each other over
// HTTP is not: so an isolated follower passes renewals on to the leader, and they do
// count, for as long as it remembers that there is one. Nor are connections cut.
func (c *Cluster) IsolateMember(i int) { c.links.isolate(i, true) }

// RejoinMember ends what IsolateMember began. The member follows the leader that the
// others have, and catches up by itself; the call returns at once, before that. It does
// nothing for a member that is not isolated.
func (c *Cluster) RejoinMember(i int) { c.links.isolate(i, false) }

// links are what members hear of each other by. Safe for concurrent use.
type links struct {
	mu       sync.Mutex
	servers  []*Server // the newest of each number, nil before the first; one that ended does not mind
	isolated []bool
}

func newLinks(members int) *links {
	return &links{servers: make([]*Server, members), isolated: make([]bool, members)}
}

// began is notified of each new server before it is waited for.
func (l *links) began(i int, s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers[i] = s
	l.apply()
}

func (l *links) isolate(i int, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isolated[i] = yes
	l.apply()
}

// apply cuts and heals every link as it is to be. Both ends of one, so that neither
// sends: what is sent over a connection of its own, the other end cannot drop.
func (l *links) apply() {
	for i, s := range l.servers {
		for j, peer := range l.servers {
			switch {
			case i == j || s == nil || peer == nil:
			case l.isolated[i] || l.isolated[j]:
				s.etcd.Server.CutPeer(peer.etcd.Server.MemberID())
			default:
				s.etcd.Server.MendPeer(peer.etcd.Server.MemberID())
			}
		}
	}
}
