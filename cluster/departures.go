package cluster

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// closeDelay is the time for which connections to a node that stopped in order are kept open. The node answered
// all its calls before it deleted its key, but their callers may not have had a chance to run since.
const closeDelay = 2 * time.Second

// connectionCloser decides which connections to close because the node at their other end is gone. It is a value:
// applySnapshot returns its successor.
type connectionCloser struct {
	members map[string]presentMember // the members of the last snapshot
	stopped map[string]stoppedMember // members that have stopped since
}

// presentMember is one registered member.
type presentMember struct {
	incarnation int64
	stopping    bool // it was seen stopping
}

// stoppedMember is one member that has stopped.
type stoppedMember struct {
	incarnation int64
	until       time.Time // the time to close its connections
}

// applySnapshot applies a snapshot. stopping names the members that were stopping in snapshots that it has not seen.
// It returns the addresses to which connections must be closed now, and the delay after which to call it again, 0
// for at the next change.
func (d connectionCloser) applySnapshot(s *state.Snapshot, stopping map[string]bool,
	now time.Time) (next connectionCloser,
	gone []string,
	again time.Duration) {
	next = connectionCloser{members: map[string]presentMember{}, stopped: map[string]stoppedMember{}}
	for _, m := range s.MembersWithServer() {
		next.members[m.Address] = presentMember{m.Incarnation, m.Stopping || stopping[m.Address]}
	}
	for address, was := range d.members {
		is, here := next.members[address]
		switch {
		case here && is.incarnation == was.incarnation:
		case !here && (was.stopping || stopping[address]):
			next.stopped[address] = stoppedMember{was.incarnation, now.Add(closeDelay)}
		default: // a process that stands still keeps its connections, but does not answer
			gone = append(gone, address)
		}
	}
	for address, p := range d.stopped {
		_, here := next.members[address]
		switch left := p.until.Sub(now); {
		case here: // another process has the address; the kernel closed the connections to its predecessor
		case left <= 0:
			gone = append(gone, address)
		default:
			next.stopped[address] = p
		}
	}
	for _, p := range next.stopped {
		if left := p.until.Sub(now); again == 0 || left < again {
			again = left
		}
	}
	return next, gone, again
}

// connectedNodes returns the nodes to which connections are kept, by address.
func (d connectionCloser) connectedNodes() []*objectspb.WatchRoutesResponse_Node {
	out := make([]*objectspb.WatchRoutesResponse_Node, 0, len(d.members)+len(d.stopped))
	for address, p := range d.members {
		out = append(out, &objectspb.WatchRoutesResponse_Node{Address: address, Incarnation: p.incarnation})
	}
	for address, p := range d.stopped {
		out = append(out, &objectspb.WatchRoutesResponse_Node{Address: address, Incarnation: p.incarnation})
	}
	slices.SortFunc(out, func(a, b *objectspb.WatchRoutesResponse_Node) int {
		return cmp.Compare(a.GetAddress(), b.GetAddress())
	})
	return out
}

// stoppingNodes collects the members that were seen stopping in any snapshot. The consumer reads only the last of
// several snapshots published in quick succession, so it could miss that one of them was stopping.
type stoppingNodes struct {
	mu   sync.Mutex
	seen map[string]bool
}

// concerns reports whether the members changed, and records those that are stopping. It runs in the mirror's
// goroutine.
func (s *stoppingNodes) concerns(before, now *state.Snapshot) bool {
	if state.SameSlice(before.Members, now.Members) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range now.Members {
		if !m.Stopping {
			continue
		}
		if s.seen == nil {
			s.seen = map[string]bool{}
		}
		s.seen[m.Address] = true
	}
	return true
}

// takeSeen returns the members collected since the last call.
func (s *stoppingNodes) takeSeen() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.seen
	s.seen = nil
	return taken
}
