package schedule

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// Suite runs schedules of one kind of world.
type Suite struct {
	// Play runs a world of w's seed until it has ended, in virtual time.
	Play func(w *World)
	// Events lists the events that Enough schedules together must have, because a run without them shows nothing
	// about them.
	Events []string
	Enough int

	name            string
	seed            *uint64
	number          *int
	limit           *time.Duration
	printTranscript *bool
}

// NewSuite returns a suite with the flags -name.seed, -name.schedules, -name.for and -name.verbose. It runs number
// schedules by default.
func NewSuite(name string, number int) *Suite {
	return &Suite{
		name:            name,
		seed:            flag.Uint64(name+".seed", 1, "the first seed"),
		number:          flag.Int(name+".schedules", number, "how many schedules to run, each with the next seed"),
		limit:           flag.Duration(name+".for", 0, "stop after this long; 0: when all were run"),
		printTranscript: flag.Bool(name+".verbose", false, "print what happened in the first schedule"),
	}
}

// Result is the result of one schedule.
type Result struct {
	Failure    string // "" if every promise was kept
	Counts     *Counts
	Transcript string // "" unless requested
}

// longestRun limits the real time of one schedule, of which most take some milliseconds on a machine that is not busy.
const longestRun = 3 * time.Minute

// RunSeed runs the schedule of a seed. The seed does not determine the order in which Go runs goroutines at one
// instant, so a failed seed may have to be run a few times to fail again.
func (s *Suite) RunSeed(t *testing.T, seed uint64, transcript bool) (r Result) {
	defer func() {
		if p := recover(); p != nil { // a leaked goroutine panics
			panic(fmt.Sprintf("seed %d: %v", seed, p))
		}
	}()
	spin := time.AfterFunc(longestRun, func() { // the panic shows the goroutines
		panic(fmt.Sprintf("seed %d: it repeats something without a pause, so virtual time stands still", seed))
	})
	defer spin.Stop()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, transcript)
		s.Play(w)
		r = Result{Failure: w.Failure(), Counts: &w.Counts, Transcript: w.Log.String()}
	})
	return r
}

// repeatFailure runs the schedule of a failed seed with a transcript, until it fails again.
func (s *Suite) repeatFailure(t *testing.T, seed uint64) (r Result) {
	for n := 0; n < 10 && r.Failure == ""; n++ {
		r = s.RunSeed(t, seed, true)
	}
	if r.Failure == "" {
		r.Transcript = "it did not fail again; the transcript of a run that kept every promise:\n" + r.Transcript
	}
	return r
}

// OnOneCore makes goroutines run one at a time until the test ends, so that a seed nearly always gives the same
// result.
func OnOneCore(t *testing.T) {
	cores := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(cores) })
}

// Run runs the schedules and reports those that break a promise.
func (s *Suite) Run(t *testing.T) {
	OnOneCore(t)
	// Almost nothing survives from one schedule to the next, so a garbage collection costs more than it saves.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	if *s.printTranscript {
		t.Log("\n" + s.RunSeed(t, *s.seed, true).Transcript)
	}
	began, n, broken, total := time.Now(), 0, 0, &Counts{}
	for ; n < *s.number && (*s.limit == 0 || time.Since(began) < *s.limit); n++ {
		seed := *s.seed + uint64(n)
		r := s.RunSeed(t, seed, false)
		total.addAll(r.Counts)
		if r.Failure == "" {
			continue
		}
		if broken++; broken == 1 {
			t.Errorf("seed %d: %s\n%s", seed, r.Failure, s.repeatFailure(t, seed).Transcript)
		} else if broken < 20 {
			t.Errorf("seed %d: %s", seed, r.Failure)
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules from seed %d, %d broken, in %v: %.0f a second\n%s", n, *s.seed, broken,
		took.Round(time.Millisecond), float64(n)/took.Seconds(), total)
	if broken > 0 {
		t.Logf("repeat one with: go test -run Schedules -v -count 10 -%s.schedules 1 -%s.verbose -%s.seed N", s.name,
			s.name, s.name)
	}
	for _, event := range s.missingEvents(n, total) {
		t.Errorf("%s: a run in which that does not happen shows nothing about it", event)
	}
}

// missingEvents returns the required events that n schedules together did not have.
func (s *Suite) missingEvents(n int, total *Counts) (missing []string) {
	for _, event := range s.Events {
		if n >= s.Enough && total.Of(event) == 0 {
			missing = append(missing, event)
		}
	}
	return missing
}
