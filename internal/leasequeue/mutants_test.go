package leasequeue

import (
	"testing"

	"github.com/goverse/goverse/internal/testkit/mutants"
)

// What finds nothing proves nothing: each mutant is found by the schedules.
func TestMutants(t *testing.T) { mutants.Found(t, "internal/leasequeue", "-queues.schedules=5000") }
