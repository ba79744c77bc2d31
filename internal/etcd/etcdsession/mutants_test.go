package etcdsession

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// A check that finds nothing proves nothing: each mutant is found by the schedules, or by the test that it
// names.
func TestMutants(t *testing.T) {
	mutants.RequireFound(t, "internal/etcd/etcdsession", "session", 1000)
}
