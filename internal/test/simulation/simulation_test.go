package simulation

import (
	"flag"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/race"
)

var (
	firstSeed = flag.Uint64("sim.seed", 1, "the first seed")
	schedules = flag.Int("sim.schedules", 500, "how many schedules to run, each with the next seed")
	forAtMost = flag.Duration("sim.for", 0, "stop after this long; 0: when all were run")
	verbose   = flag.Bool("sim.verbose", false, "print what happened in the first schedule")
)

// fullCoverage is a number of schedules that together have every occurrence.
const fullCoverage = 3000

// onOneCore makes goroutines run one at a time, so that a seed gives the same result each time.
func onOneCore(t *testing.T) {
	cores := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(cores) })
}

func TestSchedules(t *testing.T) {
	onOneCore(t)
	// Almost nothing survives from one schedule to the next, so a garbage collection costs more than it saves.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	began := time.Now()
	if *verbose {
		t.Log("\n" + Run(t, *firstSeed, true).Transcript)
	}
	var seen Seen
	n, broken := 0, 0
	for ; n < *schedules && (*forAtMost == 0 || time.Since(began) < *forAtMost); n++ {
		r := Run(t, *firstSeed+uint64(n), false)
		seen.Add(r.Seen)
		if r.Failure == nil {
			continue
		}
		if broken++; broken == 1 {
			t.Errorf("seed %d: %v\n%s", r.Seed, r.Failure, Run(t, r.Seed, true).Transcript)
		} else if broken < 20 {
			t.Errorf("seed %d: %v", r.Seed, r.Failure)
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules from seed %d, %d broken, in %v: %.0f a second\n%s", n, *firstSeed, broken,
		took.Round(time.Millisecond), float64(n)/took.Seconds(), seen)
	if broken > 0 {
		t.Logf("repeat one with: go test ./internal/test/simulation -run Schedules -v " +
			"-sim.schedules 1 -sim.verbose -sim.seed N")
	}
	if n < fullCoverage {
		return
	}
	for i, f := range allFaults() {
		require.NotZero(t, seen.Faults[i], "%s: a run in which that does not happen shows nothing about it", f.name)
	}
	for i, count := range seen.Count {
		require.NotZero(t, count, "%s: a run in which that does not happen shows nothing about it", Occurrence(i))
	}
	for i := byOutOfBand; i < exempts; i++ {
		require.NotZero(t, seen.Exempt[i].Overlaps+seen.Exempt[i].Keyless, "exempt case %d", i)
	}
	for i := range besideCauses {
		require.NotZero(t, seen.Beside[i].Overlaps, "exempt case %d of shards", i)
	}
}

// TestTheSameSeedGivesTheSameEvents checks that a seed gives the same transcript, except for the order in which
// Go runs goroutines at one instant.
func TestTheSameSeedGivesTheSameEvents(t *testing.T) {
	if race.Enabled {
		t.Skip("a build with the race detector draws that order")
	}
	onOneCore(t)
	const seeds = 50
	same := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		a, b, quiet := Run(t, seed, true), Run(t, seed, true), Run(t, seed, false)
		if a.Transcript == b.Transcript && a.Seen.Count == quiet.Seen.Count {
			same++
		}
	}
	require.GreaterOrEqual(t, same, seeds*4/5)
}
