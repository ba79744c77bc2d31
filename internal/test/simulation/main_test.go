package simulation

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/race"
)

func TestMain(m *testing.M) {
	if race.Enabled {
		// Go 1.26 crashes at times if two threads run timers of one bubble: they share the race detector's context of it.
		runtime.GOMAXPROCS(1)
	}
	goleak.VerifyTestMain(m)
}
