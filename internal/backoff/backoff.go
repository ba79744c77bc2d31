// Package backoff is how long to wait before what has failed is tried again: twice as long after
// each failure in a row, up to a bound, and each delay up to a fifth shorter or longer by chance,
// so that many who failed together do not come back together.
//
// The fifth is that of gRPC's connection back-off
// (https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md), whose connections these
// delays are beside. Half of the delays are shorter than without it, and half longer.
//
// A [Policy] is a value and draws no number itself: what decides without I/O is given one, or does
// without by [NoJitter], and a simulation comes out the same each time. A [Backoff] counts the
// failures of one loop, and draws.
//
// Not promised: that a delay is Last at the most: it may be a fifth longer. Nor anything about who
// waits: that is package wait's.
package backoff

import (
	"math"
	"math/rand/v2"
	"time"
)

// jitter is the part of a delay by which chance makes it shorter or longer at the most.
const jitter = 0.2

// NoJitter is the random number with which a delay is neither shorter nor longer.
const NoJitter = 0.5

// Policy is how long to wait after failures in a row: First after the first, twice as long after each
// further one, up to Last. With First the same as Last it is the same after each. It is immutable; the
// zero value never waits.
type Policy struct{ First, Last time.Duration }

// Delay is how long to wait after so many failures in a row, from 1 up. random is from [0, 1): with
// 0 the delay is a fifth shorter, with [NoJitter] as it is, and up to a fifth longer with more.
func (p Policy) Delay(failures int, random float64) time.Duration {
	last := min(p.Last, math.MaxInt64/2) // a fifth more than that is still a duration
	d := min(p.First, last)
	for ; failures > 1 && d < last && d > 0; failures-- {
		d = min(d, last/2+1) * 2
	}
	d = min(d, last)
	return d + time.Duration((random-NoJitter)*2*jitter*float64(d))
}

// Backoff counts the failures of one loop. The zero value with a Policy is ready to use, and has seen
// none. It is not safe for concurrent use.
type Backoff struct {
	Policy Policy
	// Random draws a number from [0, 1) for each delay. Default: rand.Float64.
	Random func() float64

	failures int
}

// Next counts one more failure, and returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.failures = min(b.failures, math.MaxInt-1) + 1
	random := b.Random
	if random == nil {
		random = rand.Float64
	}
	return b.Policy.Delay(b.failures, random())
}

// Reset forgets the failures: an attempt has worked.
func (b *Backoff) Reset() { b.failures = 0 }

// Failures is how many there were in a row.
func (b *Backoff) Failures() int { return b.failures }
