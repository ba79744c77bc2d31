package simulation

import "math/rand/v2"

// Result is what came of one schedule.
type Result struct {
	Seed       uint64
	Failure    *Failure // nil: every promise was kept
	Seen       Seen
	Events     uint64
	Transcript string // if it was asked for
}

// Run runs the schedule of a seed. The same seed gives the same result.
func Run(seed uint64, transcript bool) Result {
	w := newWorld(seed, transcript)
	w.run()
	r := Result{Seed: seed, Failure: w.checks.failure, Seen: w.checks.seen, Events: w.queue.seq}
	if transcript {
		r.Transcript = w.log.String()
	}
	return r
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x60765e)) }
