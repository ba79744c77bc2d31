package deadline

import (
	"slices"
	"time"
)

// ProofTimes are the times for which proofs count. The zero value belongs to a holder that arms no watcher.
type ProofTimes struct {
	// Acknowledged is the time for which an acknowledged heartbeat counts, from when it was sent.
	Acknowledged time.Duration
	// Read is the time for which a read counts, from when it was sent.
	Read time.Duration
}

// ProofTimesOf returns the times for a silence time-out: three quarters and three eighths of it. The rest is for the
// difference between two clocks, for a heartbeat that was acknowledged in vain, for the removal and for the next
// leader.
func ProofTimesOf(timeout time.Duration) ProofTimes {
	return ProofTimes{Acknowledged: timeout * 3 / 4, Read: timeout * 3 / 8}
}

// LeastTimeout returns the smallest silence time-out with which a read counts for that time.
func LeastTimeout(read time.Duration) time.Duration { return (8*read + 2) / 3 }

// HeartbeatEvery is the time between two heartbeats to an armed watcher. Seven in a row may be lost.
func (t ProofTimes) HeartbeatEvery() time.Duration { return t.Acknowledged / 8 }

// ReadEvery is the time between two reads while acknowledgements are missing.
func (t ProofTimes) ReadEvery() time.Duration { return t.Read / 3 }

// missingAfter is the age of the oldest acknowledged heartbeat from which acknowledgements count as missing.
func (t ProofTimes) missingAfter() time.Duration { return 3 * t.HeartbeatEvery() }

// Proofs records why no other process can have removed the holder's keys on evidence of silence. The holder arms
// watchers. Only an armed one can remove it, and only after a time since the last heartbeat that it acknowledged and
// since its accusation. So one of two proofs suffices at any instant:
//
//   - Each armed watcher has acknowledged a heartbeat that was sent less than ProofTimes.Acknowledged ago.
//   - A linearizable read that was sent less than ProofTimes.Read ago found the holder's keys, and no accusation.
//
// Without an armed watcher no proof is needed. If there was neither proof for a moment, the proofs have lapsed, and
// only a read ends that. Proofs is immutable: the methods return the value that follows. The zero value belongs to a
// holder that arms no watcher.
type Proofs struct {
	times  ProofTimes
	armed  []armedWatcher // never changed
	oldest Instant        // on each clock, the earliest heartbeat that an armed watcher acknowledged last
	read   Instant        // when the last read that counts was sent; the zero value before the first
	lapsed bool
}

// armedWatcher is one watcher that may accuse the holder.
type armedWatcher struct {
	watcher      int64 // its incarnation
	arming       uint64
	acknowledged Instant // when the last heartbeat that it acknowledged was sent, or it was armed
}

// NewProofs returns the proofs of a holder that has armed no watcher yet.
func NewProofs(times ProofTimes) Proofs { return Proofs{times: times} }

// Times returns the times for which proofs count.
func (p *Proofs) Times() ProofTimes { return p.times }

// Valid reports whether no other process can have removed the holder for its silence by now.
func (p *Proofs) Valid(now Instant) bool { return !p.lapsed && p.holds(now) }

// holds reports whether a proof holds now.
func (p *Proofs) holds(now Instant) bool {
	return p.AcknowledgedByAll(now) || p.ReadHolds(now)
}

// Left returns the time for which the proofs stay valid without another one, and at most the given one. It is zero or
// negative if they are not valid.
func (p *Proofs) Left(now Instant, most time.Duration) time.Duration {
	if p.lapsed {
		return 0
	}
	left := most
	if len(p.armed) > 0 {
		left = min(left, now.Until(p.oldest.Add(p.times.Acknowledged)))
	}
	if p.read != (Instant{}) {
		left = max(left, now.Until(p.read.Add(p.times.Read)))
	}
	return min(left, most)
}

// AcknowledgedByAll reports whether each armed watcher has acknowledged a heartbeat that counts now.
func (p *Proofs) AcknowledgedByAll(now Instant) bool {
	return len(p.armed) == 0 || !now.Reached(p.oldest.Add(p.times.Acknowledged))
}

// ReadHolds reports whether a read counts now.
func (p *Proofs) ReadHolds(now Instant) bool {
	return p.read != Instant{} && !now.Reached(p.read.Add(p.times.Read))
}

// Lapsed reports whether the proofs have lapsed, as far as At has noticed.
func (p *Proofs) Lapsed() bool { return p.lapsed }

// Armed returns the number of armed watchers.
func (p *Proofs) Armed() int { return len(p.armed) }

// IsArmed reports whether the watcher is armed.
func (p *Proofs) IsArmed(watcher int64) bool { return p.index(watcher) >= 0 }

// ArmedAt reports whether the watcher is armed by the arming with that number.
func (p *Proofs) ArmedAt(watcher int64, arming uint64) bool {
	i := p.index(watcher)
	return i >= 0 && p.armed[i].arming == arming
}

// At returns the proofs at now: they have lapsed if none holds.
func (p *Proofs) At(now Instant) Proofs {
	after := *p
	after.lapsed = p.lapsed || !p.holds(now)
	return after
}

// Arm returns the proofs after a watcher was armed, before it learns of that. One that is armed already keeps the
// heartbeat that it acknowledged last, because it may still count from that.
func (p *Proofs) Arm(watcher int64, arming uint64, now Instant) Proofs {
	after := p.At(now)
	armed := slices.Clone(p.armed)
	if i := p.index(watcher); i < 0 {
		after.setArmed(append(armed, armedWatcher{watcher, arming, now}))
	} else if arming > armed[i].arming {
		armed[i].arming = arming
		after.setArmed(armed)
	}
	return after
}

// OnAcknowledged returns the proofs after an armed watcher acknowledged a heartbeat that was sent at the instant sent.
func (p *Proofs) OnAcknowledged(watcher int64, sent, now Instant) Proofs {
	after := p.At(now)
	if i := p.index(watcher); i >= 0 && sent.Mono > p.armed[i].acknowledged.Mono {
		armed := slices.Clone(p.armed)
		armed[i].acknowledged = sent
		after.setArmed(armed)
	}
	return after
}

// OnRelease returns the proofs after a watcher has announced that it no longer accuses by the arming with that number.
// If it was armed again since, nothing changes.
func (p *Proofs) OnRelease(arming uint64, now Instant) Proofs {
	return p.without(now, func(a armedWatcher) bool { return a.arming == arming })
}

// OnMembers returns the proofs after the holder saw the cluster's state at a revision, with its own key in it. Watchers
// that had joined before and were no members any more can never remove the holder, because a removal is refused without
// the watcher's key.
func (p *Proofs) OnMembers(revision int64, isMember func(watcher int64) bool, now Instant) Proofs {
	return p.without(now, func(a armedWatcher) bool { return a.watcher <= revision && !isMember(a.watcher) })
}

func (p *Proofs) without(now Instant, gone func(armedWatcher) bool) Proofs {
	after := p.At(now)
	if slices.ContainsFunc(p.armed, gone) {
		after.setArmed(slices.DeleteFunc(slices.Clone(p.armed), gone))
	}
	return after
}

// setArmed sets the armed watchers of a new value.
func (p *Proofs) setArmed(armed []armedWatcher) {
	p.armed, p.oldest = armed, Instant{}
	for i, a := range armed {
		if p.oldest = earlier(p.oldest, a.acknowledged); i == 0 {
			p.oldest = a.acknowledged
		}
	}
}

// OnRead returns the proofs after a read that was sent at the instant sent has found the holder's keys and no
// accusation. A request that deleted all accusations while the keys stood is such a read.
func (p *Proofs) OnRead(sent, now Instant) Proofs {
	after := p.At(now)
	if p.read == (Instant{}) || sent.Mono > p.read.Mono {
		after.read = sent
	}
	if after.ReadHolds(now) {
		after.lapsed = false
	}
	return after
}

// UntilRead returns the time until the next read is due because acknowledgements are missing, at most the given one.
// It is zero or negative if a read is due now.
func (p *Proofs) UntilRead(now Instant, most time.Duration) time.Duration {
	if p.lapsed {
		return 0
	}
	if len(p.armed) > 0 {
		most = min(most, now.Until(p.oldest.Add(p.times.missingAfter())))
	}
	return most
}

func (p *Proofs) index(watcher int64) int {
	return slices.IndexFunc(p.armed, func(a armedWatcher) bool { return a.watcher == watcher })
}
