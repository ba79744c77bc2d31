package history

import (
	"fmt"
	"time"
)

// Instant is a moment in nanoseconds on the clock that all processes of this machine
// share. Its zero is arbitrary.
type Instant int64

// Now is this moment. It may be called concurrently and does not block.
func Now() Instant { return now() }

// Add is the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is how long after o this moment is.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// Window is the time between two stamps. Something that was done between them
// happened at some instant in it, which is not known better.
type Window struct {
	Before Instant `json:"b"`
	After  Instant `json:"a"`
}

// since writes an instant as seconds after start, to the microsecond.
func (i Instant) since(start Instant) string {
	return fmt.Sprintf("%+.6f", i.Sub(start).Seconds())
}
