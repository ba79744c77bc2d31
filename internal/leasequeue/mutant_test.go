//go:build mutants

package leasequeue

import (
	"testing"
	"time"

	"github.com/goverse/goverse/internal/mutant"
)

// mutantBound is how many schedules a mutant may take to be found.
const mutantBound = 5000

// Every mutant here breaks a promise. The schedules are those that the ordinary
// build runs, where none is broken.
func TestMutantsAreFound(t *testing.T) {
	onOneCore(t)
	for _, bug := range mutant.Queues() {
		t.Run(string(bug), func(t *testing.T) {
			mutant.Set(bug)
			defer mutant.Set("")
			began := time.Now()
			for n := range uint64(mutantBound) {
				if r := simulate(t, *firstSeed+n); r.failure != "" {
					t.Logf("%s: found by seed %d, after %v: %s", bug, *firstSeed+n, time.Since(began).Round(time.Millisecond),
						r.failure)
					return
				}
			}
			t.Errorf("%s: not found in %d schedules", bug, mutantBound)
		})
	}
}
