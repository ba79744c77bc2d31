package simulation

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// TestMutants checks that the schedules find each mutant, because a check that finds nothing proves nothing.
func TestMutants(t *testing.T) {
	mutants.RequireFound(t, "internal/test/simulation", "sim", 6000)
}
