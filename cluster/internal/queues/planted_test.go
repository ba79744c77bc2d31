//go:build planted

package queues

import (
	"testing"
	"time"

	"github.com/goverse/goverse/internal/planted"
)

// plantedBound is how many schedules a planted bug may take to be found.
const plantedBound = 5000

// Every bug that can be planted here breaks a promise. The schedules are those that the ordinary
// build runs, where none is broken.
func TestPlantedBugsAreFound(t *testing.T) {
	onOneCore(t)
	for _, bug := range planted.Queues() {
		t.Run(string(bug), func(t *testing.T) {
			planted.Set(bug)
			defer planted.Set("")
			began := time.Now()
			for n := range uint64(plantedBound) {
				if r := simulate(t, *firstSeed+n); r.failure != "" {
					t.Logf("%s: found by seed %d, after %v: %s", bug, *firstSeed+n, time.Since(began).Round(time.Millisecond), r.failure)
					return
				}
			}
			t.Errorf("%s: not found in %d schedules", bug, plantedBound)
		})
	}
}
