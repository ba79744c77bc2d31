package port

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.ErrorIs(t, Probe(address), syscall.EADDRINUSE)
	require.NoError(t, l.Close())
	require.NoError(t, Probe(address))
}

// Processes are started all the time, and what was probed can be bound at once all the same.
func TestProbeLeavesNothingBehind(t *testing.T) {
	address := draw(t)
	self, err := os.Executable()
	require.NoError(t, err)
	began := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 {
		wg.Go(func() {
			for time.Since(began) < time.Second {
				_ = exec.Command(self, "-test.run", "^$").Run()
			}
		})
	}
	for time.Since(began) < time.Second {
		require.NoError(t, Probe(address))
		require.NoError(t, Probe(address), "a child of this process has it")
	}
}

// draw is a free address with a port that no other program is given for a connection, and no
// other test draws.
func draw(t *testing.T) string {
	t.Helper()
	for number := 32500; number < 32700; number++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
		if Probe(address) == nil {
			return address
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}
