//go:build !mutants

package simulation

import (
	"testing"

	"github.com/goverse/goverse/internal/mutant"
	"github.com/goverse/goverse/internal/mutant/mutanttest"
)

// What finds nothing proves nothing: each mutant is found by the schedules.
func TestMutants(t *testing.T) { mutanttest.Found(t, mutant.Pure()) }
