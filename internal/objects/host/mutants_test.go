package host

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// What finds nothing proves nothing: the mutant is found by the test that it names.
func TestMutants(t *testing.T) { mutants.Found(t, "internal/objects/host") }
