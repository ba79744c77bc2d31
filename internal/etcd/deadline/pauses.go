package deadline

import "time"

// PauseLimit is the longest time between two beats of a process that is considered to be running.
const PauseLimit = 150 * time.Millisecond

const (
	// permitDuration is the time for which a round that was sent after a pause permits new work, regardless of further
	// pauses. A pause of this length ends that: no request sent before it proves anything about the time after
	// it.
	permitDuration = time.Second
	// maxPauseCost limits the cost of one pause. maxWaitCost limits the cost of the time until a round confirms or
	// another pause comes. A process that stood still once, however long, therefore never gives anything up.
	maxWaitCost, maxPauseCost = 500 * time.Millisecond, 250 * time.Millisecond
	// regainFactor is the running time that makes up for one part lost to pauses. A process that loses less than a
	// twentieth of its time can continue indefinitely.
	regainFactor = 20
)

// Pauses records when the process of a lease's holder stood still. The process notices a pause afterwards, by a
// beat that is late. Pauses is immutable: the methods return the value that follows. The zero value belongs to
// a process before its first beat.
type Pauses struct {
	last         Instant // the time of the last beat
	began        bool    // there was a beat
	unsure       bool    // the process stood still, and no round has confirmed since that it still holds its keys
	first        Instant // when the first pause was noticed that no confirming round was sent after; while unsure
	noticed      Instant // when the latest pause was noticed; while unsure
	newWorkUntil Instant // until when a round permits new work
	wasted       time.Duration
}

// OnBeat returns the value after a beat at now, and the length of the pause before it, 0 if there was none.
func (p *Pauses) OnBeat(now Instant) (after Pauses, stood time.Duration) {
	after = *p
	ran := time.Duration(now.Mono - p.last.Mono)
	switch {
	case !p.began:
	case !now.Reached(p.last.Add(PauseLimit)):
		if !p.unsure {
			after.wasted = max(0, p.wasted-ran/regainFactor)
		}
	default:
		stood = max(ran, time.Duration(now.Wall-p.last.Wall))
		if p.unsure {
			after.wasted += min(time.Duration(now.Mono-p.noticed.Mono), maxWaitCost)
		} else {
			after.wasted += min(stood-PauseLimit, maxPauseCost)
		}
		if !p.unsure || stood >= permitDuration {
			after.first = now
		}
		after.unsure, after.noticed = true, now
	}
	after.began, after.last = true, now
	return after, stood
}

// Stood reports whether the process stood still until now, or stood still before and no round has confirmed
// since that it still holds its keys.
func (p *Pauses) Stood(now Instant) bool {
	return p.began && (p.unsure || now.Reached(p.last.Add(PauseLimit)))
}

// Unconfirmed is [Pauses.Stood] without a pause that is not noticed yet.
func (p *Pauses) Unconfirmed() bool { return p.unsure }

// StoodSince reports whether the process stood still until now, or less than d has passed since it noticed the first
// pause that no round has confirmed.
func (p *Pauses) StoodSince(now Instant, d time.Duration) bool {
	if p.unsure {
		return !now.Reached(p.first.Add(d))
	}
	return p.Stood(now)
}

// MayBeginWork reports whether new work may begin now on a lease that etcd does not revoke before its time. After a
// pause it may not until a round confirms the session, because the first events that a watch delivers then may
// be long out of date.
//
// A process that stands still again and again has no round without a pause in it. For its sake a round that was
// sent after a pause permits new work for a second from its answer, even if there were short pauses since. That
// is equivalent to work that began when the round was sent, followed by a pause; on such a lease, work that has
// begun continues over a pause.
func (p *Pauses) MayBeginWork(now Instant) bool { return !p.Stood(now) || !now.Reached(p.newWorkUntil) }

// OnRound returns the value after a round, sent and answered at these instants, that found all keys as they
// were. The round confirms existing claims only if the process ran all the time since it was sent: otherwise
// the keys may have gone afterwards, unnoticed.
func (p *Pauses) OnRound(sent, answered Instant) Pauses {
	after := *p
	runs := !answered.Reached(p.last.Add(PauseLimit))
	switch {
	case !p.unsure:
	case sent.Mono >= p.noticed.Mono && runs:
		after.unsure = false
		after.wasted += min(time.Duration(answered.Mono-p.noticed.Mono), maxWaitCost)
	case sent.Mono >= p.first.Mono && !answered.Reached(p.last.Add(permitDuration)):
		after.first, after.newWorkUntil = p.noticed, answered.Add(permitDuration)
	}
	return after
}

// RoundStillPermits reports whether a round sent at the instant sent, and followed by a late beat, still permits new
// work: it does if it was sent after the first of the unconfirmed pauses.
func (p *Pauses) RoundStillPermits(sent Instant) bool { return p.unsure && sent.Mono >= p.first.Mono }

// WithoutWasted returns the value on a lease that etcd does not revoke before its time. Pauses cost nothing there.
func (p *Pauses) WithoutWasted() Pauses {
	after := *p
	after.wasted = 0
	return after
}

// Starved reports whether so much time was lost to pauses that the lease should be given up. ttl is the length
// of the lease, and etcd may revoke it early while the process stands still. Starved is true after a loss of
// more than a fifth of the TTL and more than a second.
//
// Giving the lease up costs one handover, well below a second, and happens once per raft term of etcd, because
// the next lease is of the present term. Keeping it costs the time counted here, without end. A fifth of the
// TTL is more than a briefly busy machine loses: with a TTL of 10 s, at least five pauses in a row that no
// round confirms. If no round ever confirms, the fifth is lost before half of the TTL is over, so another
// process leads sooner than it would at the end of the lease.
func (p *Pauses) Starved(ttl time.Duration) bool { return p.wasted > max(ttl/5, time.Second) }
