package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// Result is the result of one schedule.
type Result struct {
	Seed       uint64
	Failure    *Failure // nil if every promise was kept
	Seen       Seen
	Transcript string // empty unless requested
}

// Run runs the schedule of a seed in virtual time.
func Run(t *testing.T, seed uint64, transcript bool) (r Result) {
	defer func() {
		if p := recover(); p != nil { // a leaked goroutine panics
			panic(fmt.Sprintf("seed %d: %v", seed, p))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, transcript)
		w.runSchedule()
		r = Result{Seed: seed, Failure: w.checks.failure, Seen: w.checks.seen}
		if transcript {
			r.Transcript = w.log.String()
		}
	})
	return r
}
