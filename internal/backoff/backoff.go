// Package backoff computes the delay before a failed operation is tried again. The delay doubles with each
// failure in a row, up to a bound. Jitter makes each delay up to a fifth shorter or longer, which keeps
// processes that failed together from retrying together.
//
// The jitter is that of gRPC's connection back-off
// (https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md), which runs beside these delays. It
// shortens as many delays as it lengthens.
//
// A [Policy] is a value and draws no random numbers. Pure code passes it a number, or passes [NoJitter], and so
// simulations are reproducible. A [Backoff] counts the failures of one loop and draws the numbers itself.
//
// Not promised: a delay may exceed Last, by up to a fifth. The package does not wait; package wait does.
package backoff

import (
	"math"
	"math/rand/v2"
	"time"
)

// jitter is the largest fraction by which a delay is shortened or lengthened.
const jitter = 0.2

// NoJitter is the random number that leaves a delay unchanged.
const NoJitter = 0.5

// Policy describes the delays after failures in a row: First after the first one, twice as long after each
// further one, up to Last. If First equals Last, the delay is constant. A Policy is immutable; the zero value
// never waits.
type Policy struct{ First, Last time.Duration }

// Delay returns the delay after the given number of failures in a row, counted from 1. random is in [0, 1): 0
// shortens the delay by a fifth, [NoJitter] leaves it unchanged, and larger numbers lengthen it by up to a
// fifth.
func (p Policy) Delay(failures int, random float64) time.Duration {
	last := min(p.Last, math.MaxInt64/2) // keeps the delay with its jitter within time.Duration
	d := min(p.First, last)
	for ; failures > 1 && d < last && d > 0; failures-- {
		d = min(d, last/2+1) * 2
	}
	d = min(d, last)
	return d + time.Duration((random-NoJitter)*2*jitter*float64(d))
}

// Backoff counts the failures of one loop. The zero value with a Policy is ready to use and has counted no
// failures. It is not safe for concurrent use.
type Backoff struct {
	Policy Policy
	// Random returns a number in [0, 1) for each delay. Default: rand.Float64.
	Random func() float64

	failures int
}

// Next counts one more failure and returns the delay before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.failures = min(b.failures, math.MaxInt-1) + 1
	random := b.Random
	if random == nil {
		random = rand.Float64
	}
	return b.Policy.Delay(b.failures, random())
}

// Reset sets the number of failures to zero. Call it when an attempt has succeeded.
func (b *Backoff) Reset() { b.failures = 0 }

// Failures returns the number of failures in a row.
func (b *Backoff) Failures() int { return b.failures }
