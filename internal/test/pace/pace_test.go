package pace

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAtOnce(t *testing.T) {
	require.Positive(t, PageFaultTime())
	most := 8 * runtime.GOMAXPROCS(0)
	if SlowMachine() {
		require.Equal(t, most/2, ParallelTests(most))
	} else {
		require.Equal(t, most, ParallelTests(most))
	}
	require.Equal(t, runtime.GOMAXPROCS(0), ParallelTests(1), "as go test has it")
}
