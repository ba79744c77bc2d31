package embedetcd

import "sync"

// IsolateMember isolates member i from the other members, like a network fault that still lets its clients
// through. From now on no raft message passes between it and them, until RejoinMember. The isolation outlasts a
// restart: an isolated member that is restarted does not serve before it has rejoined. The call returns at
// once, before any member has noticed. Repeating it does nothing.
//
// The consequences are etcd's own. Within two election timeouts the member has no leader any more. If it was
// the leader, it renews leases until then, without effect: the others elect another leader, which extends every
// lease by a fresh TTL and an election timeout. The isolated member still answers reads that are not
// linearizable, from an increasingly old state. All other requests wait for 5 s and two election timeouts and
// then fail. Requests with clientv3.WithRequireLeader fail at once; an open watch with it ends within another
// three election timeouts, and one without it just stays silent.
//
// Only raft messages are dropped, in both directions. Requests between members over HTTP still pass, so an
// isolated follower forwards lease renewals to the leader, with effect, for as long as it remembers one.
// Connections are not closed.
func (c *Cluster) IsolateMember(i int) { c.links.setIsolated(i, true) }

// RejoinMember ends the isolation of member i. The member then follows the others' leader and catches up by
// itself; the call returns at once, before that. It does nothing if the member is not isolated.
func (c *Cluster) RejoinMember(i int) { c.links.setIsolated(i, false) }

// memberLinks holds the connectivity between members. It is safe for concurrent use.
type memberLinks struct {
	mu       sync.Mutex
	servers  []*Server // the newest of each index, nil before the first; may have ended
	isolated []bool
}

func newMemberLinks(members int) *memberLinks {
	return &memberLinks{servers: make([]*Server, members), isolated: make([]bool, members)}
}

// setServer registers a new server, before the caller waits for it.
func (l *memberLinks) setServer(i int, s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers[i] = s
	l.applyLinks()
}

func (l *memberLinks) setIsolated(i int, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isolated[i] = yes
	l.applyLinks()
}

// applyLinks cuts and restores the links. It cuts both ends of a link so that neither sends, because the receiving
// end cannot drop messages that arrive over a connection of their own.
func (l *memberLinks) applyLinks() {
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
