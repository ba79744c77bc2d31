package simulation

import (
	"sync"
	"time"
)

// faultState holds the future faults and the active ones.
type faultState struct {
	w    *world
	away bool          // etcd is away; changed by alter
	sick int           // members of etcd that stand still or are cut off; changed by alter
	slow time.Duration // extra delay of ways between nodes, at most; guarded by w.mu
	// slowUntil is the time until which there last was such a delay; guarded by w.mu.
	slowUntil time.Duration

	lasting []func() // functions that end the active faults; guarded by w.mu

	mu         sync.Mutex
	over       bool // everything is healed: no further fault begins
	deliveries []plannedOutcome
	waiting    []faultTrigger
}

// requestOutcome is the outcome of one request.
type requestOutcome int

const (
	outcomeArrives    requestOutcome = iota
	outcomeLost                      // on its way
	outcomeUnanswered                // executed, but the answer is lost
	outcomeLate                      // executed long after its sender gave up
)

func (f requestOutcome) String() string {
	return [...]string{"arrives", "is lost", "will not be answered", "comes late"}[f]
}

// plannedOutcome determines the outcome of one future request.
type plannedOutcome struct {
	kind    requestKind
	host    *host // nil for any host
	skip    int   // matching requests to spare before it
	outcome requestOutcome
	after   time.Duration // the delay, if the outcome is late
}

// faultTrigger starts a fault at a moment of interest.
type faultTrigger struct {
	moment faultMoment
	host   *host
	skip   int
	after  time.Duration
	begin  func()
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

// nextOutcome returns the outcome of a request that is about to be sent.
func (f *faultState) nextOutcome(p *process, k requestKind) (requestOutcome, time.Duration) {
	f.reachMoment(p, momentSent+faultMoment(k))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.deliveries {
		d := &f.deliveries[i]
		if d.kind != k || d.host != nil && d.host != p.host {
			continue
		}
		if d.skip > 0 {
			d.skip--
			continue
		}
		found := *d
		f.deliveries = append(f.deliveries[:i], f.deliveries[i+1:]...)
		return found.outcome, found.after
	}
	return outcomeArrives, 0
}

// addOutcome adds a rule for the outcome of a future request.
func (f *faultState) addOutcome(d plannedOutcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.deliveries = append(f.deliveries, d)
	}
}

// addTrigger registers a fault that begins at a moment.
func (f *faultState) addTrigger(t faultTrigger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.waiting = append(f.waiting, t)
	}
}

// reachMoment schedules the faults that wait for the moment m. It is called in any context, and runs no fault
// itself.
func (f *faultState) reachMoment(p *process, m faultMoment) {
	if p.dead.Load() {
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
		f.w.after(found.after, found.begin)
		i--
	}
}

// isHealed reports whether everything is healed.
func (f *faultState) isHealed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// endAfter ends a fault after d, or when everything is healed. end is called once. The caller holds w.mu.
func (f *faultState) endAfter(d time.Duration, end func()) {
	done := false
	once := func() {
		if !done {
			done = true
			end()
		}
	}
	if f.isHealed() {
		once()
		return
	}
	f.lasting = append(f.lasting, once)
	f.w.after(d, once)
}

// healAll ends all faults. The caller holds w.mu.
func (f *faultState) healAll() {
	f.mu.Lock()
	f.over, f.deliveries, f.waiting = true, nil, nil
	f.mu.Unlock()
	for _, end := range f.lasting {
		end()
	}
}
