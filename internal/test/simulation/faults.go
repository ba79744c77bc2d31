package simulation

import (
	"sync"
	"time"
)

// faultState holds the faults of this world that package schedule does not know: those of the network between
// nodes, and those that wait for a moment.
type faultState struct {
	w    *world
	slow time.Duration // extra delay of ways between nodes, at most; guarded by w.Mu
	// slowUntil is the time until which there last was such a delay; guarded by w.Mu.
	slowUntil time.Duration
	cutUntil  time.Duration // the time until which there last was a cut between nodes; guarded by w.Mu
	// waitingLanes have messages that wait for a host or for the network between two; guarded by w.Mu.
	waitingLanes []*lane

	mu      sync.Mutex
	waiting []faultTrigger
}

// faultTrigger starts a fault at a moment of interest.
type faultTrigger struct {
	moment faultMoment
	host   *host // nil for any host
	skip   int   // matching moments to spare before it
	after  time.Duration
	begin  func()
	// beginAt, if set, is called in place of begin with the process that reached the moment.
	beginAt func(p *process)
}

// faultMoment is a moment at which faults are interesting: when a request of a kind is sent, executed or answered,
// or when a term begins or ends.
type faultMoment int

const (
	momentSent      faultMoment = faultMoment(iota) * faultMoment(requestKinds)
	momentExecuted              // executed by etcd
	momentAnswered              // received by the sender
	momentTermBegan             // from here on not about requests
	momentTermEnded = momentTermBegan + 1
)

// addTrigger registers a fault that begins at a moment.
func (f *faultState) addTrigger(t faultTrigger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, t)
}

// reachMoment schedules the faults that wait for the moment m. It is called in any context, and runs no fault
// itself.
func (f *faultState) reachMoment(p *process, m faultMoment) {
	if p.dead.Load() || f.w.IsHealed() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := 0; i < len(f.waiting); i++ {
		t := &f.waiting[i]
		if t.moment != m || t.host != nil && t.host != p.host {
			continue
		}
		if t.skip > 0 {
			t.skip--
			continue
		}
		found := *t
		f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
		if found.beginAt != nil {
			found.begin = func() { found.beginAt(p) }
		}
		f.w.After(found.after, found.begin)
		i--
	}
}
