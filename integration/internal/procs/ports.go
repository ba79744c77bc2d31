//go:build unix

package procs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/port"
)

// Addresses returns n different unused addresses of 127.0.0.1, in order, which the kit has not returned before.
func (k *Kit) Addresses(t testing.TB, n int) []string {
	t.Helper()
	addresses, err := port.Restarted.Loopback(n)
	require.NoError(t, err)
	return addresses
}
