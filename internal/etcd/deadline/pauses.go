package deadline

import "time"

// PauseLimit is how long a process may go without a beat before it counts as having stood still.
const PauseLimit = 150 * time.Millisecond

const (
	// calm is how long a round that was sent after a pause counts for what is begun, whatever pauses follow.
	// A pause of this length ends it: it is one that nothing sent before it says anything about.
	calm = time.Second
	// mostOnce bounds what a pause itself costs, and mostWasted the time from then until a round confirms or a further
	// pause comes: a process that stood still once, however long, gives nothing up.
	mostWasted, mostOnce = 500 * time.Millisecond, 250 * time.Millisecond
	// regained is how long a process must run to make up for one part lost to pauses: one that loses less
	// than a twentieth of its time goes on forever.
	regained = 20
)

// Pauses is what the holder of a lease knows of the times at which its process stood still, of which it
// hears afterwards, by beats that come too late. It is immutable: the methods return what follows. The zero
// value is that of a process that has not had its first beat.
type Pauses struct {
	last    Instant // beat
	began   bool    // there was one
	unsure  bool    // the process stood still, and no round confirms that nothing was taken from it
	first   Instant // when the first of those pauses was noticed that no round was sent after; while unsure
	noticed Instant // when the latest was; while unsure
	calm    Instant // until when a round counts for what is begun
	wasted  time.Duration
}

// Beat is what is known after a beat now, and how long the process stood still before it: 0 if it did not.
func (p *Pauses) Beat(now Instant) (after Pauses, stood time.Duration) {
	after = *p
	ran := time.Duration(now.Mono - p.last.Mono)
	switch {
	case !p.began:
	case !now.Reached(p.last.Add(PauseLimit)):
		if !p.unsure {
			after.wasted = max(0, p.wasted-ran/regained)
		}
	default:
		stood = max(ran, time.Duration(now.Wall-p.last.Wall))
		if p.unsure {
			after.wasted += min(time.Duration(now.Mono-p.noticed.Mono), mostWasted)
		} else {
			after.wasted += min(stood-PauseLimit, mostOnce)
		}
		if !p.unsure || stood >= calm {
			after.first = now
		}
		after.unsure, after.noticed = true, now
	}
	after.began, after.last = true, now
	return after, stood
}

// Stood reports whether the process stood still by now, and no round has confirmed since that nothing was
// taken from it.
func (p *Pauses) Stood(now Instant) bool {
	return p.began && (p.unsure || now.Reached(p.last.Add(PauseLimit)))
}

// Unsure is Stood, as far as it was noticed.
func (p *Pauses) Unsure() bool { return p.unsure }

// MayBegin reports whether something new may be begun now on a lease that etcd lets nobody have before its
// time. It may not after a pause, for what a watch delivers first may be long past, until a round confirms.
// A process that stands still again and again has no round without a pause in it; so one that was sent after a
// pause counts for a second from its answer, whatever short pauses there were since. That is as if the thing had
// been begun when the round was sent, and the process had stood still then: on such a lease what was begun goes on
// over a pause.
func (p *Pauses) MayBegin(now Instant) bool { return !p.Stood(now) || !now.Reached(p.calm) }

// Confirmed is what is known after a round, sent and answered at these instants, that found all as it was.
// It confirms what is claimed if the process ran all the time since: else the keys may have gone, after the round
// was sent and unheard of.
func (p *Pauses) Confirmed(sent, answered Instant) Pauses {
	after := *p
	runs := !answered.Reached(p.last.Add(PauseLimit))
	switch {
	case !p.unsure:
	case sent.Mono >= p.noticed.Mono && runs:
		after.unsure = false
		after.wasted += min(time.Duration(answered.Mono-p.noticed.Mono), mostWasted)
	case sent.Mono >= p.first.Mono && !answered.Reached(p.last.Add(calm)):
		after.first, after.calm = p.noticed, answered.Add(calm)
	}
	return after
}

// Proves reports whether a round that was sent before the last beat, which came too late by stood, still proves
// something: for what is begun, if there was a shorter pause before it was sent.
func (p *Pauses) Proves(sent Instant) bool { return p.unsure && sent.Mono >= p.first.Mono }

// Forgiven is what is known on a lease that etcd lets nobody have before its time: there no pause costs anything.
func (p *Pauses) Forgiven() Pauses {
	after := *p
	after.wasted = 0
	return after
}

// Starved reports whether so much of the time is lost to pauses, on a lease of that length that others may have
// while the process stands still, that it should be given up. It is so after a fifth of the TTL, and never before a
// second.
//
// To give it up costs one handover, well below a second, and once for each of etcd's raft terms, since the next lease
// is of the present one. To keep it costs what is counted here, without end. A fifth of the TTL is more than a machine
// that is busy for a moment loses: five pauses in a row at least, none of which a round confirms, with a TTL of 10 s.
// And where no round ever confirms, it is lost before half of the TTL is over, so another process leads sooner than it
// would by the end of the lease.
func (p *Pauses) Starved(ttl time.Duration) bool { return p.wasted > max(ttl/5, time.Second) }
