package simulation

import (
	"sync"
	"time"
)

// faults are those that are to come, and those that last.
type faults struct {
	w    *world
	away bool          // etcd is; changed by alter
	sick int           // members of etcd that stand still, or are cut off; the same
	slow time.Duration // how much longer ways between nodes take, at most; the world's lock is held
	// slowUntil is when they took longer last; the world's lock is held.
	slowUntil time.Duration

	lasting []func() // what ends those that last; the world's lock is held

	mu         sync.Mutex
	over       bool // everything is healed: none comes any more
	deliveries []doom
	waiting    []trigger
}

// outcome is what becomes of one request.
type outcome int

const (
	arrives    outcome = iota
	lost               // on its way
	unanswered         // it is carried out, and the answer is lost
	late               // it is carried out long after its sender gave up
)

func (f outcome) String() string {
	return [...]string{"arrives", "is lost", "will not be answered", "comes late"}[f]
}

// doom is what is to become of one request.
type doom struct {
	kind    kind
	host    *host // nil: anybody's
	skip    int   // so many before it are spared
	outcome outcome
	after   time.Duration // how late, if it is to be late
}

// trigger lets a fault begin at a moment that matters.
type trigger struct {
	moment moment
	host   *host
	skip   int
	after  time.Duration
	begin  func()
}

// moment is one of those around which faults are interesting: when a request of a kind
// is sent, was carried out, was answered; when a term begins or ends.
type moment int

const (
	sent       moment = moment(iota) * moment(kinds)
	carriedOut        // by etcd
	gotAnswer         // by its sender
	termBegan         // from here on not about requests
	termEnded  = termBegan + 1
)

// sends decides what becomes of a request that is about to be sent.
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

// doom settles what becomes of a request.
func (f *faults) doom(d doom) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.deliveries = append(f.deliveries, d)
	}
}

// at lets a fault begin at a moment.
func (f *faults) at(t trigger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.waiting = append(f.waiting, t)
	}
}

// moment lets begin what waits for it. It is called from wherever it is, and begins nothing itself.
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

// ended reports whether all faults are over.
func (f *faults) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// last makes a fault end after d, or when everything is healed. end is called once. The world's lock is held.
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

// heal ends everything. The world's lock is held.
func (f *faults) heal() {
	f.mu.Lock()
	f.over, f.deliveries, f.waiting = true, nil, nil
	f.mu.Unlock()
	for _, end := range f.lasting {
		end()
	}
}
