package silence

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// A check that finds nothing proves nothing: each mutant is found by the schedules.
func TestMutants(t *testing.T) {
	mutants.RequireFound(t, "internal/crash/silence", "silence", 3000)
}
