package processorload_test

import (
	"testing"

	"github.com/goverse/goverse/internal/test/mutants"
)

// Faults of the product itself are found, too.
func TestMutants(t *testing.T) { mutants.RequireFound(t, "internal/test/processorload", "", 0) }
