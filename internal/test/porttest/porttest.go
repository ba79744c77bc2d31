// Package porttest checks in tests that a server has released its port.
//
// Not promised: that the port stays free. The system gives a released port to the next program that asks for any.
package porttest

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is longer than another test keeps a port that the system gave it in the meantime.
const patience = time.Minute

// RequireFree fails the test unless each address can be bound. It waits for that, because the system may have given
// the port of a server that has ended to another test, or to a connection.
func RequireFree(t testing.TB, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			l, err := net.Listen("tcp", address)
			if assert.NoError(c, err, "the port must be free") {
				_ = l.Close()
			}
		}, patience, 10*time.Millisecond)
	}
}
