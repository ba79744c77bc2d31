//go:build mutants

package simulation

import (
	"testing"
	"time"

	"github.com/goverse/goverse/internal/mutant"
)

// mutantBound is how many schedules a mutant may take to be found. They take a few
// thousand at most; a bug that takes more is found by luck.
const mutantBound = 6000

// Every mutant in the pure code breaks a promise. The schedules are
// those that the ordinary build runs, where none is broken.
func TestMutantsAreFound(t *testing.T) {
	onOneCore(t)
	for _, bug := range mutant.Pure() {
		t.Run(string(bug), func(t *testing.T) {
			mutant.Set(bug)
			defer mutant.Set("")
			began := time.Now()
			for n := range uint64(mutantBound) {
				if r := Run(t, 1+n, false); r.Failure != nil {
					t.Logf("%s: found by seed %d, the %dth schedule, after %v: %v", bug, r.Seed, n+1,
						time.Since(began).Round(time.Millisecond), r.Failure)
					return
				}
			}
			t.Errorf("%s: not found in %d schedules", bug, mutantBound)
		})
	}
}
