//go:build unix

package procs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/port"
)

// Addresses returns n different addresses of 127.0.0.1, in order, that nothing
// listens at and that the kit has given to nobody else.
func (k *Kit) Addresses(t testing.TB, n int) []string {
	t.Helper()
	addresses, err := port.Restarted.Loopback(n)
	require.NoError(t, err)
	return addresses
}
