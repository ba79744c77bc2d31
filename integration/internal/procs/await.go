//go:build unix

package procs

import (
	"testing"
	"time"
)

// interval is between two looks at what is awaited.
const interval = 2 * time.Millisecond

// Await looks every few milliseconds, and less often where a look takes long, until look returns nil, and returns how
// long that took. After within it fails the test with what look said last.
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
		<-time.After(Rest(interval, time.Since(looked)))
	}
}

// Until returns at the given instant: for scenarios that name a span of time, never
// for waiting on something that can be observed.
func Until(instant time.Time) { <-time.After(time.Until(instant)) }
