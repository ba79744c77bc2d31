package cluster

import (
	"sync"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// lastReplies is for how long a node that has stopped in order keeps its connections here. All that it was asked it
// has answered before its key went, but who waits for that may not have been running since.
const lastReplies = 2 * time.Second

// departures decide to which nodes the connections are closed, because they are gone. It is a value: a look makes the
// next one.
type departures struct {
	members map[string]bool      // those of the last snapshot; true: it was stopping
	stopped map[string]time.Time // those that have stopped since, and when their connections are closed
}

// look takes a snapshot in, and who was stopping in those that were not looked at. It returns the addresses whose
// connections are to be closed now, and after how long to look again, 0 for at the next change.
func (d departures) look(s *state.Snapshot, stopping map[string]bool, now time.Time) (next departures, gone []string,
	again time.Duration) {
	next = departures{members: map[string]bool{}, stopped: map[string]time.Time{}}
	for _, m := range s.Members {
		next.members[m.Address] = m.Stopping || stopping[m.Address]
	}
	for address, stops := range d.members {
		_, here := next.members[address]
		switch {
		case here:
		case stops || stopping[address]:
			next.stopped[address] = now.Add(lastReplies)
		default: // a process that stands still keeps its connections, and answers nothing
			gone = append(gone, address)
		}
	}
	for address, at := range d.stopped {
		_, here := next.members[address]
		switch left := at.Sub(now); {
		case here: // another process has the address, and the kernel has closed the connections to the one before
		case left <= 0:
			gone = append(gone, address)
		default:
			next.stopped[address] = at
		}
	}
	for _, at := range next.stopped {
		if left := at.Sub(now); again == 0 || left < again {
			again = left
		}
	}
	return next, gone, again
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
