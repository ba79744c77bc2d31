package cluster

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// lastReplies is for how long a node that has stopped in order keeps its connections here. All that it was asked it
// has answered before its key went, but who waits for that may not have been running since.
const lastReplies = 2 * time.Second

// departures decide to which nodes the connections are closed, because they are gone. It is a value: a look makes the
// next one.
type departures struct {
	members map[string]presence // those of the last snapshot
	stopped map[string]parting  // those that have stopped since
}

// presence is a member.
type presence struct {
	incarnation int64
	stopping    bool // it was seen to stop
}

// parting is a member that has stopped.
type parting struct {
	incarnation int64
	until       time.Time // when its connections are closed
}

// look takes a snapshot in, and who was stopping in those that were not looked at. It returns the addresses whose
// connections are to be closed now, and after how long to look again, 0 for at the next change.
func (d departures) look(s *state.Snapshot, stopping map[string]bool, now time.Time) (next departures, gone []string,
	again time.Duration) {
	next = departures{members: map[string]presence{}, stopped: map[string]parting{}}
	for _, m := range s.Members {
		next.members[m.Address] = presence{m.Incarnation, m.Stopping || stopping[m.Address]}
	}
	for address, was := range d.members {
		is, here := next.members[address]
		switch {
		case here && is.incarnation == was.incarnation:
		case !here && (was.stopping || stopping[address]):
			next.stopped[address] = parting{was.incarnation, now.Add(lastReplies)}
		default: // a process that stands still keeps its connections, and answers nothing
			gone = append(gone, address)
		}
	}
	for address, p := range d.stopped {
		_, here := next.members[address]
		switch left := p.until.Sub(now); {
		case here: // another process has the address, and the kernel has closed the connections to the one before
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

// nodes are those to which connections are kept, by address.
func (d departures) nodes() []*objectspb.WatchRoutesResponse_Node {
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

// stoppingNodes are those that were seen to stop, in whatever snapshot: of what is published while nobody looks, only
// the last one is looked at.
type stoppingNodes struct {
	mu   sync.Mutex
	seen map[string]bool
}

// concerns reports whether the members changed, and takes note of those that are stopping. It runs in the mirror's
// goroutine.
func (s *stoppingNodes) concerns(before, now *state.Snapshot) bool {
	if state.Same(before.Members, now.Members) {
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

// take are those that were seen since the last time.
func (s *stoppingNodes) take() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.seen
	s.seen = nil
	return taken
}
