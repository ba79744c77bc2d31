package schedule

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// NewRand returns a random source of the seed for the stream of draws that the parts name. Separate streams make
// draws independent of each other.
func NewRand(seed uint64, parts ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Between draws a duration from a to b, with nanosecond resolution so that events rarely coincide.
func Between(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// Pick draws one element.
func Pick[T any](r *rand.Rand, s ...T) T { return s[r.IntN(len(s))] }
