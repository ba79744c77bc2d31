package leasequeue

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// Each mutant must be found by the schedules.
func TestMutants(t *testing.T) {
	mutants.RequireFound(t, "internal/leasequeue", "queues", 5000)
}
