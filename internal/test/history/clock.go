package history

import (
	"fmt"
	"time"
)

// Instant is a time in nanoseconds on the clock that all processes of this machine share. Its zero is
// arbitrary.
type Instant int64

// Now returns the present instant. It is safe for concurrent use and does not block.
func Now() Instant { return now() }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// Window is the time between two time stamps. An event recorded with it happened at an unknown instant in
// between.
type Window struct {
	Before Instant `json:"b"`
	After  Instant `json:"a"`
}

// since formats an instant as seconds after start, to the microsecond.
func (i Instant) since(start Instant) string {
	return fmt.Sprintf("%+.6f", i.Sub(start).Seconds())
}
