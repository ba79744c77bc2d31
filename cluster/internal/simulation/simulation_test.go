package simulation

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	simSeed      = flag.Uint64("sim.seed", 1, "the first seed")
	simSchedules = flag.Int("sim.schedules", 1500, "how many schedules to run")
	simFor       = flag.Duration("sim.for", 0, "stop after this long; 0: when all have been run")
	simVerbose   = flag.Bool("sim.verbose", false, "print the transcript of the first seed")
)

func TestSchedules(t *testing.T) {
	began := time.Now()
	var seen Seen
	var events uint64
	n := 0
	bad := 0
	for ; n < *simSchedules && (*simFor == 0 || time.Since(began) < *simFor); n++ {
		seed := *simSeed + uint64(n)
		r := Run(seed, *simVerbose && n == 0)
		if *simVerbose && n == 0 {
			fmt.Print(r.Transcript)
		}
		seen.Add(r.Seen)
		events += r.Events
		if r.Failure != nil {
			bad++
			if bad < 10 {
				t.Errorf("seed %d: %v", seed, *r.Failure)
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules in %v: %.0f a second, %d events each; %d bad; %+v", n, took, float64(n)/took.Seconds(), events/uint64(n), bad, seen)
}
