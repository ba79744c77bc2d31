package simulation

import (
	"time"
)

// faults are those that are to come, and those that last.
type faults struct {
	w          *world
	over       bool // everything is healed: none comes any more
	deliveries []doom
	waiting    []trigger
	lasting    []func() // what ends those that last
}

// doom is what is to become of one request.
type doom struct {
	kind     kind
	host     *host // nil: anybody's
	skip     int   // so many before it are spared
	delivery delivery
	after    time.Duration // how late, if its delivery is to be late
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
	planned    = termBegan + 2 // and not sent yet
)

// sends decides what becomes of a request that is about to be sent.
func (f *faults) sends(p *process, k kind) (delivery, time.Duration) {
	f.moment(p, sent+moment(k))
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
		if found.delivery == late {
			return late, found.after
		}
		return found.delivery, 0
	}
	return arrives, 0
}

func (f *faults) carriedOut(p *process, k kind) { f.moment(p, carriedOut+moment(k)) }

func (f *faults) gotAnswer(p *process, k kind) { f.moment(p, gotAnswer+moment(k)) }

// moment lets begin what waits for it.
func (f *faults) moment(p *process, m moment) {
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

// last makes a fault end after d, or when everything is healed. end is called once.
func (f *faults) last(d time.Duration, end func()) {
	ended := false
	once := func() {
		if !ended {
			ended = true
			end()
		}
	}
	if f.over {
		once()
		return
	}
	f.lasting = append(f.lasting, once)
	f.w.after(d, once)
}

// heal ends everything.
func (f *faults) heal() {
	f.over = true
	f.deliveries, f.waiting = nil, nil
	for _, end := range f.lasting {
		end()
	}
}
