//go:build planted

package simulation

import (
	"testing"
	"time"

	"github.com/goverse/goverse/internal/planted"
)

// plantedBound is how many schedules a planted bug may take to be found. They take a few
// thousand at most; a bug that takes more is found by luck.
const plantedBound = 20000

// Every bug that can be planted in the pure code breaks a promise. The schedules are
// those that the ordinary build runs, where none is broken.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range planted.Pure() {
		t.Run(string(bug), func(t *testing.T) {
			planted.Set(bug)
			defer planted.Set("")
			began := time.Now()
			for n := range uint64(plantedBound) {
				if r := Run(1+n, false); r.Failure != nil {
					t.Logf("%s: found by seed %d, the %dth schedule, after %v: %v", bug, r.Seed, n+1,
						time.Since(began).Round(time.Millisecond), r.Failure)
					return
				}
			}
			t.Errorf("%s: not found in %d schedules", bug, plantedBound)
		})
	}
}
