package etcdsession

import (
	"testing"

	"github.com/goverse/goverse/internal/testkit/mutants"
)

// What finds nothing proves nothing: each mutant is found by the schedules, or the test that it names.
func TestMutants(t *testing.T) { mutants.Found(t, "internal/etcdsession", "-session.schedules=1000") }
