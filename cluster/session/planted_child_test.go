//go:build planted

package session

import (
	"testing"
	"time"

	"github.com/goverse/goverse/internal/planted"
)

// plantedBound is how many schedules a planted bug may take to be found.
const plantedBound = 1000

// Every bug that can be planted here breaks the promise. The schedules are those that the ordinary
// build runs, where it is kept.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range planted.Sessions() {
		t.Run(string(bug), func(t *testing.T) {
			planted.Set(bug)
			defer planted.Set("")
			began := time.Now()
			for n := range uint64(plantedBound) {
				if failure, _, _ := simulate(t, *firstSeed+n); failure != "" {
					t.Logf("%s: found by seed %d, after %v: %s", bug, *firstSeed+n, time.Since(began).Round(time.Millisecond), failure)
					return
				}
			}
			t.Errorf("%s: not found in %d schedules", bug, plantedBound)
		})
	}
}
