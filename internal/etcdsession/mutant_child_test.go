//go:build mutants

package etcdsession

import (
	"testing"
	"time"

	"github.com/goverse/goverse/internal/mutant"
)

// mutantBound is how many schedules a mutant may take to be found.
const mutantBound = 1000

// Every mutant here breaks the promise. The schedules are those that the ordinary
// build runs, where it is kept.
func TestMutantsAreFound(t *testing.T) {
	for _, bug := range mutant.Sessions() {
		t.Run(string(bug), func(t *testing.T) {
			mutant.Set(bug)
			defer mutant.Set("")
			began := time.Now()
			for n := range uint64(mutantBound) {
				if failure, _, _ := simulate(t, *firstSeed+n); failure != "" {
					t.Logf("%s: found by seed %d, after %v: %s", bug, *firstSeed+n, time.Since(began).Round(time.Millisecond), failure)
					return
				}
			}
			t.Errorf("%s: not found in %d schedules", bug, mutantBound)
		})
	}
}
