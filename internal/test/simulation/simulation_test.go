package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/race"
	"github.com/goverse/goverse/internal/test/schedule"
)

var suite = newSuite()

func newSuite() *schedule.Suite {
	s := schedule.NewSuite("sim", 500)
	s.Play, s.Events, s.Enough = play, requiredEvents(), 3000
	return s
}

func TestSchedules(t *testing.T) { suite.Run(t) }

// TestTheSameSeedGivesTheSameEvents checks that a seed gives the same transcript, except for the order in which
// Go runs goroutines at one instant.
func TestTheSameSeedGivesTheSameEvents(t *testing.T) {
	if race.Enabled {
		t.Skip("a build with the race detector draws that order")
	}
	schedule.OnOneCore(t)
	const seeds = 50
	same := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		a, b, quiet := suite.RunSeed(t, seed, true), suite.RunSeed(t, seed, true), suite.RunSeed(t, seed, false)
		if a.Transcript == b.Transcript && a.Counts.String() == quiet.Counts.String() {
			same++
		}
	}
	require.GreaterOrEqual(t, same, seeds*4/5)
}
