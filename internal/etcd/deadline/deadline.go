// Package deadline computes how long the holder of a lease may rely on it. It has values and pure functions;
// only Now reads the clocks. A session keeps the current deadline.
//
// Not promised: it does not notice that both clocks stood still, as in a guest that its hypervisor stopped.
package deadline

import "time"

// Instant is one moment on both clocks, in nanoseconds.
type Instant struct {
	Mono int64 // monotonic clock; it stands still in a suspended machine
	Wall int64 // wall clock, since 1970; it can be stepped
}

// Add returns the moment d later, provided that both clocks run.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Mono: i.Mono + int64(d), Wall: i.Wall + int64(d)}
}

// Reached reports whether either clock has reached deadline.
func (i Instant) Reached(deadline Instant) bool {
	return i.Mono >= deadline.Mono || i.Wall >= deadline.Wall
}

// Until returns the time left until deadline, on the clock that has less of it.
func (i Instant) Until(deadline Instant) time.Duration {
	return time.Duration(min(deadline.Mono-i.Mono, deadline.Wall-i.Wall))
}

// earlier returns the earlier of a and b on each clock.
func earlier(a, b Instant) Instant {
	return Instant{Mono: min(a.Mono, b.Mono), Wall: min(a.Wall, b.Wall)}
}

// Claim is the period during which the holder of a lease may rely on it. It is immutable: the methods return
// the claim that follows. The methods that are called before each action under the lease have pointer
// receivers, because a claim is twenty words long.
//
// A suspicion suspends the claim at an instant unless an answer clears the suspicion first. From then on the
// claim is not valid until an answer arrives. The lease is kept meanwhile.
type Claim struct {
	ttl     time.Duration
	until   Instant
	renewed Instant // when the request was sent from which until is computed
	period  int     // number of times that it was valid again after a suspension

	suspected   bool
	suspends    Instant       // when the suspicion suspends the claim
	first, last Instant       // times of the first and last suspicion that no answer has cleared
	within      time.Duration // time that the last suspicion allowed
}

// margin returns the part of a TTL that is set aside for clocks that run at different rates: 1 %, twenty times
// the rate at which NTP may slew a clock.
func margin(ttl time.Duration) time.Duration { return ttl / 100 }

// NewClaim returns the claim on a lease that was granted for ttl by a request sent at the instant sent. etcd
// counts the TTL from a later instant.
func NewClaim(sent Instant, ttl time.Duration) Claim {
	return Claim{ttl: ttl, until: sent.Add(ttl - margin(ttl)), renewed: sent}
}

// ValidUntil returns the instant at which the claim stops being valid unless it is renewed.
func (c *Claim) ValidUntil() Instant {
	if c.suspected {
		return earlier(c.until, c.suspends)
	}
	return c.until
}

// EndsAt returns the instant at which the claim ends for good unless it is renewed.
func (c Claim) EndsAt() Instant { return c.until }

// RenewedAt returns the instant at which the grant or renewal that counts was sent.
func (c Claim) RenewedAt() Instant { return c.renewed }

// Suspected reports whether there is a suspicion that no renewal has cleared.
func (c Claim) Suspected() bool { return c.suspected }

// Valid reports whether the holder may act on the lease at this instant.
func (c *Claim) Valid(now Instant) bool { return !now.Reached(c.ValidUntil()) }

// Ended reports whether the claim has ended for good.
func (c Claim) Ended(now Instant) bool { return now.Reached(c.until) }

// PeriodNumber returns the number of the current validity period. Work that began in one period is over when the
// period ends.
func (c *Claim) PeriodNumber() int { return c.period }

// OnRenewal returns the claim after a round, sent and answered at these instants, in which etcd renewed the lease
// and showed every key that it must hold. A round answered after the end changes nothing: the claim was void
// for a moment and stays void. A round that was sent before a suspicion does not clear it.
func (c Claim) OnRenewal(sent, answered Instant) Claim { return c.afterRound(sent, sent, answered) }

// OnRemainingTTL returns the claim after a round in which etcd, asked at the instant asked, answered that the lease
// lasts for left, and showed every key that it must hold. The exceptions of [Claim.OnRenewal] apply.
// Remaining never moves the end closer, because earlier answers remain true.
func (c Claim) OnRemainingTTL(asked Instant, left time.Duration, answered Instant) Claim {
	counts := asked.Add(left - c.ttl)
	if counts.Mono < c.renewed.Mono {
		counts = c.renewed
	}
	return c.afterRound(asked, counts, answered)
}

// OnRead returns the claim after a read, sent and answered at these instants, that showed every key that it must hold,
// and that no other member is about to delete one. It clears suspicions as a round does, and moves no end.
func (c Claim) OnRead(sent, answered Instant) Claim { return c.afterRound(sent, c.renewed, answered) }

// afterRound returns the claim after a round in which the TTL is counted from counts.
func (c Claim) afterRound(sent, counts, answered Instant) Claim {
	switch {
	case c.Ended(answered):
		return c
	case c.suspected && sent.Mono < c.first.Mono:
		return c
	}
	suspended := !c.Valid(answered)
	c.until, c.renewed = counts.Add(c.ttl-margin(c.ttl)), counts
	if c.suspected && sent.Mono < c.last.Mono {
		// The round clears the suspicions before it and leaves the last one.
		c.first, c.suspends = c.last, c.last.Add(c.within)
	} else {
		c.suspected = false
	}
	if suspended && c.Valid(answered) {
		c.period++
	}
	return c
}

// Suspect returns the claim after a sign, seen now, that others may consider the holder gone. The claim is
// suspended after within, unless a round sent from now on renews it.
func (c Claim) Suspect(now Instant, within time.Duration) Claim {
	if !c.suspected {
		c.suspected, c.first, c.suspends = true, now, now.Add(within)
	}
	c.suspends, c.last, c.within = earlier(c.suspends, now.Add(within)), now, within
	return c
}

// KeyUnchanged reports whether a renewal's read shows a key as it was created. created is the key's CreateRevision,
// and found the one that the read returned, or 0 if it found no key.
func KeyUnchanged(created, found int64) bool { return found == created }
