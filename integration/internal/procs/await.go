//go:build unix

package procs

import (
	"testing"
	"time"
)

// interval is the shortest time between two calls of look.
const interval = 2 * time.Millisecond

// Await calls look every few milliseconds, or less often if look takes long, until it returns nil. It returns
// the time that took. After within it fails the test with look's last error.
func Await(t testing.TB, within time.Duration, what string, look func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		looked := time.Now()
		err := look()
		took := time.Since(began)
		if err == nil {
			return took
		}
		if took > within {
			t.Fatalf("not within %v: %s: %v", within, what, err)
		}
		<-time.After(PollPause(interval, time.Since(looked)))
	}
}

// SleepUntil blocks until the given time. It is for scenarios that name a period of time, never for waiting for
// something observable.
func SleepUntil(instant time.Time) { <-time.After(time.Until(instant)) }
