//go:build planted

package simulation

import (
	"testing"

	"github.com/goverse/goverse/internal/planted"
)

// plantedBound is how many schedules a planted bug may take to be found.
const plantedBound = 20000

// Every bug that can be planted in the pure code breaks a promise within so many
// schedules.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range planted.All() {
		t.Run(string(bug), func(t *testing.T) {
			planted.Set(bug)
			defer planted.Set("")
			for seed := uint64(1); seed <= plantedBound; seed++ {
				if r := Run(seed, false); r.Failure != nil {
					t.Logf("found by seed %d, the %dth schedule: %s: %s", seed, seed, r.Failure.Promise, r.Failure.What)
					return
				}
			}
			t.Errorf("%s was not found in %d schedules", bug, plantedBound)
		})
	}
}
