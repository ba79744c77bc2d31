// Package deadline computes how long the holder of a lease may rely on it. It has values and pure functions;
// only Now reads the clocks. A session keeps the current deadline.
//
// Not promised: anything about clocks that both stand still, as in a guest whose
// hypervisor stopped it.
package deadline

import "time"

// Instant is one moment on both clocks, in nanoseconds.
type Instant struct {
	Mono int64 // stands still in a suspended machine
	Wall int64 // since 1970; can be stepped
}

// Add is the moment d later, if both clocks run.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Mono: i.Mono + int64(d), Wall: i.Wall + int64(d)}
}

// Reached reports whether either clock has come to deadline.
func (i Instant) Reached(deadline Instant) bool {
	return i.Mono >= deadline.Mono || i.Wall >= deadline.Wall
}

// Until is the time left on the clock that has less of it.
func (i Instant) Until(deadline Instant) time.Duration {
	return time.Duration(min(deadline.Mono-i.Mono, deadline.Wall-i.Wall))
}

// earlier is the sooner of both on each clock.
func earlier(a, b Instant) Instant {
	return Instant{Mono: min(a.Mono, b.Mono), Wall: min(a.Wall, b.Wall)}
}

// Claim is what the holder of a lease may count on. It is immutable: the methods
// return the claim that follows. Those that are asked before each thing that is done under the lease
// take a pointer, for a claim is twenty words long.
//
// A suspicion suspends it at an instant unless an answer clears the suspicion before: nothing
// counts from then on until one does. The lease is not given up meanwhile.
type Claim struct {
	ttl     time.Duration
	until   Instant
	renewed Instant // when the request was sent that until counts from
	period  int     // how often it was suspended and counts again

	suspected   bool
	suspends    Instant       // when the suspicion does that
	first, last Instant       // of the suspicions that no answer has cleared
	within      time.Duration // what the last one gave
}

// margin is what is taken off the TTL for clocks that run at different rates:
// 1 %, twenty times what NTP may slew a clock by.
func margin(ttl time.Duration) time.Duration { return ttl / 100 }

// Granted is the claim on a lease that was granted for ttl by a request sent then:
// etcd counts from a later instant.
func Granted(sent Instant, ttl time.Duration) Claim {
	return Claim{ttl: ttl, until: sent.Add(ttl - margin(ttl)), renewed: sent}
}

// Until is the instant at which the claim stops to count unless it is renewed.
func (c *Claim) Until() Instant {
	if c.suspected {
		return earlier(c.until, c.suspends)
	}
	return c.until
}

// Ends is the instant at which it ends for good unless it is renewed.
func (c Claim) Ends() Instant { return c.until }

// RenewedAt is when the grant or renewal that counts was sent.
func (c Claim) RenewedAt() Instant { return c.renewed }

// Suspected reports whether there is a suspicion that no renewal has cleared.
func (c Claim) Suspected() bool { return c.suspected }

// Valid reports whether the lease may be acted on at this instant.
func (c *Claim) Valid(now Instant) bool { return !now.Reached(c.Until()) }

// Ended reports whether the claim has ended for good.
func (c Claim) Ended(now Instant) bool { return now.Reached(c.until) }

// Period numbers the periods of time in which the claim is valid without a break.
// What was begun in one of them is over with it.
func (c *Claim) Period() int { return c.period }

// Renewed is the claim after a round, sent and answered at these instants, in which
// etcd renewed the lease and showed every key that it must hold. A round answered
// after the end comes too late: the claim was void for a moment and stays so. One that
// was sent before a suspicion says nothing about what came after.
func (c Claim) Renewed(sent, answered Instant) Claim { return c.after(sent, sent, answered) }

// Remaining is the claim after a round in which etcd said, asked at that instant, that the lease lasts
// for so long, and showed every key that it must hold; else it is as [Claim.Renewed]. It never moves
// the end closer: what was known before is still true.
func (c Claim) Remaining(asked Instant, left time.Duration, answered Instant) Claim {
	counts := asked.Add(left - c.ttl)
	if counts.Mono < c.renewed.Mono {
		counts = c.renewed
	}
	return c.after(asked, counts, answered)
}

// after is the claim after a round whose renewal counts from an instant.
func (c Claim) after(sent, counts, answered Instant) Claim {
	switch {
	case c.Ended(answered):
		return c
	case c.suspected && sent.Mono < c.first.Mono:
		return c
	}
	suspended := !c.Valid(answered)
	c.until, c.renewed = counts.Add(c.ttl-margin(c.ttl)), counts
	if c.suspected && sent.Mono < c.last.Mono {
		// It clears the suspicions before it, and leaves the last one.
		c.first, c.suspends = c.last, c.last.Add(c.within)
	} else {
		c.suspected = false
	}
	if suspended && c.Valid(answered) {
		c.period++
	}
	return c
}

// Suspect is the claim after a sign, seen now, that others may take the holder for
// gone: it is suspended after within, unless a round that is sent from now on renews it.
func (c Claim) Suspect(now Instant, within time.Duration) Claim {
	if !c.suspected {
		c.suspected, c.first, c.suspends = true, now, now.Add(within)
	}
	c.suspends, c.last, c.within = earlier(c.suspends, now.Add(within)), now, within
	return c
}

// Shown reports whether a renewal's read that found a key created at the revision
// found, or 0 if it found none, shows the key that was created at created.
func Shown(created, found int64) bool { return found == created }
