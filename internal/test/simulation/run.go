package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// Result is what came of one schedule.
type Result struct {
	Seed       uint64
	Failure    *Failure // nil: every promise was kept
	Seen       Seen
	Transcript string // if it was asked for
}

// Run runs the schedule of a seed, in virtual time.
func Run(t *testing.T, seed uint64, transcript bool) (r Result) {
	defer func() {
		if p := recover(); p != nil { // a goroutine that is left is a panic
			panic(fmt.Sprintf("seed %d: %v", seed, p))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, transcript)
		w.run()
		r = Result{Seed: seed, Failure: w.checks.failure, Seen: w.checks.seen}
		if transcript {
			r.Transcript = w.log.String()
		}
	})
	return r
}
