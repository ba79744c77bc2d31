package simulation

import (
	"flag"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	firstSeed = flag.Uint64("sim.seed", 1, "the first seed")
	schedules = flag.Int("sim.schedules", 2000, "how many schedules to run, each with the next seed")
	forAtMost = flag.Duration("sim.for", 0, "stop after this long; 0: when all were run")
	verbose   = flag.Bool("sim.verbose", false, "print what happened in the first schedule")
)

// enough is how many schedules bring everything about.
const enough = 2000

func TestSchedules(t *testing.T) {
	// Next to nothing lives on from one schedule to the next: to look for it takes more time
	// than it is worth.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	began := time.Now()
	if *verbose {
		t.Log("\n" + Run(*firstSeed, true).Transcript)
	}
	var seen Seen
	var events uint64
	n, broken := 0, 0
	for ; n < *schedules && (*forAtMost == 0 || time.Since(began) < *forAtMost); n++ {
		r := Run(*firstSeed+uint64(n), false)
		seen.Add(r.Seen)
		events += r.Events
		if r.Failure == nil {
			continue
		}
		if broken++; broken == 1 {
			t.Errorf("seed %d: %v\n%s", r.Seed, r.Failure, Run(r.Seed, true).Transcript)
		} else if broken < 20 {
			t.Errorf("seed %d: %v", r.Seed, r.Failure)
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules from seed %d, %d events each, %d broken, in %v: %.0f a second on %d cores\n%s", n, *firstSeed,
		events/uint64(max(n, 1)), broken, took.Round(time.Millisecond), float64(n)/took.Seconds(), runtime.GOMAXPROCS(0),
		seen)
	if broken > 0 {
		t.Logf("repeat one with: go test ./internal/simulation -run Schedules -v -sim.schedules 1 -sim.verbose -sim.seed N")
	}
	if n < enough {
		return
	}
	for i, count := range seen.Count {
		require.NotZero(t, count, "%s: a run in which that does not happen shows nothing about it", Occurrence(i))
	}
	for i := hand; i <= outsideCandidate; i++ {
		require.NotZero(t, seen.Exempt[i].Overlaps, "exempt case %d", i)
	}
	for i := range besides {
		require.NotZero(t, seen.Beside[i].Overlaps, "exempt case %d of shards", i)
	}
}

// A seed that failed somewhere fails everywhere, as long as the code is the same.
func TestTheSameSeedGivesTheSameEvents(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		a, b, quiet := Run(seed, true), Run(seed, true), Run(seed, false)
		require.Equal(t, a, b)
		a.Transcript = ""
		require.Equal(t, a, quiet, "listening changes nothing")
	}
}
