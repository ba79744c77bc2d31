//go:build !planted

package session

import (
	"testing"

	"github.com/goverse/goverse/internal/planted"
	"github.com/goverse/goverse/internal/planted/plantedtest"
)

// What finds nothing proves nothing: each planted bug is found by the schedules.
func TestPlantedBugs(t *testing.T) { plantedtest.Found(t, planted.Sessions()) }
