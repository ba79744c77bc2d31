package port

import (
	"net"
	"os"
	"os/exec"
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

// Processes are started all the time, and yet a probed address can be bound immediately.
func TestProbeLeavesNothingBehind(t *testing.T) {
	address, err := NewRange(32500, 32700).Draw("127.0.0.1") // where no other test draws
	require.NoError(t, err)
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

func TestDrawGoesThroughTheRange(t *testing.T) {
	const first, size = 32500, 12
	r, drawn := NewRange(first, first+size), map[int]bool{}
	for range size {
		drawn[r.nextPort()] = true
	}
	require.Len(t, drawn, size)
	for number := range drawn {
		require.True(t, first <= number && number < first+size, number)
	}
}

func TestDrawPassesOverWhatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	taken := l.Addr().(*net.TCPAddr).Port
	r := NewRange(taken, taken+2)
	for range 4 {
		if address, err := r.Draw("127.0.0.1"); err == nil { // the other port may be taken, too
			require.NotEqual(t, l.Addr().String(), address)
		}
	}
	_, err = NewRange(taken, taken+1).Draw("127.0.0.1")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = NewRange(taken, taken+1).Loopback(1)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = Servers.Draw("192.0.2.1") // an address of no machine
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
}

func TestLoopbackAddressesDifferAndCanBeBound(t *testing.T) {
	addresses, err := Servers.Loopback(20)
	require.NoError(t, err)
	require.Len(t, addresses, 20)
	require.IsIncreasing(t, addresses)
	for _, a := range addresses { // all are held at once: no address is drawn twice
		l, err := net.Listen("tcp", a)
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
	}
}
