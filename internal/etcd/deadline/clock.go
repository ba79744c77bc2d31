package deadline

import "time"

// monotonicZero is the zero of the monotonic clock. It never changes.
var monotonicZero = time.Now()

// Now reads both clocks. Instants of one process may be compared by the monotonic clock; those of two processes
// only by the wall clock.
func Now() Instant {
	t := time.Now()
	return Instant{Mono: int64(t.Sub(monotonicZero)), Wall: t.UnixNano()}
}
