package host

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// A test that finds no mutant proves nothing. The mutant is found by the test that it names.
func TestMutants(t *testing.T) { mutants.RequireFound(t, "internal/objects/host", "", 0) }
