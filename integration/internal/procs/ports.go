//go:build unix

package procs

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/goverse/goverse/internal/port"
)

// Ports are drawn from below the range that the usual systems give to outgoing
// connections, so that a process finds its port free when it is restarted. All have
// five digits: addresses sort as their ports do.
const (
	firstPort, lastPort = 12000, 20000
	drawings            = 1000
)

// Addresses returns n different addresses of 127.0.0.1, in order, that nothing
// listens at and that the kit has given to nobody else.
func (k *Kit) Addresses(t testing.TB, n int) []string {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	var ports []int
	for range drawings {
		if len(ports) == n {
			break
		}
		number := firstPort + rand.IntN(lastPort-firstPort)
		if k.drawn[number] {
			continue
		}
		k.drawn[number] = true
		err := port.Probe(loopback(number))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatalf("no port of 127.0.0.1 can be bound: %v", err)
		}
		ports = append(ports, number)
	}
	if len(ports) < n {
		t.Fatalf("found no %d free ports of 127.0.0.1 from %d to %d", n, firstPort, lastPort)
	}
	slices.Sort(ports)
	var out []string
	for _, number := range ports {
		out = append(out, loopback(number))
	}
	return out
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
