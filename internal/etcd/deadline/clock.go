package deadline

import "time"

// epoch anchors the monotonic clock. It is never changed.
var epoch = time.Now()

// Now reads both clocks. Instants of one process compare by the monotonic clock; those of two processes
// compare by the wall clock alone.
func Now() Instant {
	t := time.Now()
	return Instant{Mono: int64(t.Sub(epoch)), Wall: t.UnixNano()}
}
