// Package clock reads both clocks that a deadline is about.
package clock

import (
	"time"

	"github.com/goverse/goverse/internal/deadline"
)

// epoch anchors the monotonic clock. It is never changed.
var epoch = time.Now()

// Now is this moment. Instants of one process compare with each other; those of two do so on the
// wall clock alone.
func Now() deadline.Instant {
	t := time.Now()
	return deadline.Instant{Mono: int64(t.Sub(epoch)), Wall: t.UnixNano()}
}
