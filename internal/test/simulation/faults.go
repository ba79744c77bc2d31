package simulation

import (
	"sync"
	"time"
)

// faults holds the future faults and the active ones.
type faults struct {
	w    *world
	away bool          // etcd is away; changed by alter
	sick int           // members of etcd that stand still or are cut off; changed by alter
	slow time.Duration // extra delay of ways between nodes, at most; guarded by w.mu
	// slowUntil is the time until which there last was such a delay; guarded by w.mu.
	slowUntil time.Duration

	lasting []func() // functions that end the active faults; guarded by w.mu

	mu         sync.Mutex
	over       bool // everything is healed: no further fault begins
	deliveries []doom
	waiting    []trigger
}

// outcome is the outcome of one request.
type outcome int

const (
	arrives    outcome = iota
	lost               // on its way
	unanswered         // executed, but the answer is lost
	late               // executed long after its sender gave up
)

func (f outcome) String() string {
	return [...]string{"arrives", "is lost", "will not be answered", "comes late"}[f]
}

// doom determines the outcome of one future request.
type doom struct {
	kind    kind
	host    *host // nil for any host
	skip    int   // matching requests to spare before it
	outcome outcome
	after   time.Duration // the delay, if the outcome is late
}

// trigger starts a fault at a moment of interest.
type trigger struct {
	moment moment
	host   *host
	skip   int
	after  time.Duration
	begin  func()
}

// moment is a moment at which faults are interesting: when a request of a kind is sent, executed or answered,
// or when a term begins or ends.
type moment int

const (
	sent       moment = moment(iota) * moment(kinds)
	carriedOut        // executed by etcd
	gotAnswer         // received by the sender
	termBegan         // from here on not about requests
	termEnded  = termBegan + 1
)

// sends returns the outcome of a request that is about to be sent.
func (f *faults) sends(p *process, k kind) (outcome, time.Duration) {
	f.moment(p, sent+moment(k))
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
	return arrives, 0
}

// doom adds a rule for the outcome of a future request.
func (f *faults) doom(d doom) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.deliveries = append(f.deliveries, d)
	}
}

// at registers a fault that begins at a moment.
func (f *faults) at(t trigger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.waiting = append(f.waiting, t)
	}
}

// moment schedules the faults that wait for the moment m. It is called in any context, and runs no fault
// itself.
func (f *faults) moment(p *process, m moment) {
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

// ended reports whether everything is healed.
func (f *faults) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// last ends a fault after d, or when everything is healed. end is called once. The caller holds w.mu.
func (f *faults) last(d time.Duration, end func()) {
	done := false
	once := func() {
		if !done {
			done = true
			end()
		}
	}
	if f.ended() {
		once()
		return
	}
	f.lasting = append(f.lasting, once)
	f.w.after(d, once)
}

// heal ends all faults. The caller holds w.mu.
func (f *faults) heal() {
	f.mu.Lock()
	f.over, f.deliveries, f.waiting = true, nil, nil
	f.mu.Unlock()
	for _, end := range f.lasting {
		end()
	}
}
