package pace

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAtOnce(t *testing.T) {
	require.Positive(t, Fault())
	most := 8 * runtime.GOMAXPROCS(0)
	if Slow() {
		require.Equal(t, most/2, AtOnce(most))
	} else {
		require.Equal(t, most, AtOnce(most))
	}
	require.Equal(t, runtime.GOMAXPROCS(0), AtOnce(1), "as go test has it")
}
