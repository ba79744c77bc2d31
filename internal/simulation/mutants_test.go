package simulation

import (
	"testing"

	"github.com/goverse/goverse/internal/testkit/mutants"
)

// What finds nothing proves nothing: each mutant is found by the schedules.
func TestMutants(t *testing.T) { mutants.Found(t, "internal/simulation", "-sim.schedules=6000") }
