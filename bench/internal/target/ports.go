package target

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"syscall"

	"github.com/goverse/goverse/internal/port"
)

// Ports for processes that are started again at the same address lie below the range
// that the usual systems give to outgoing connections: nobody takes them meanwhile.
const (
	firstPort, lastPort = 21000, 29000
	drawings            = 1000
)

// freeAddresses are n addresses of 127.0.0.1 at which nothing listens, in order.
func freeAddresses(n int) ([]string, error) {
	var ports []int
	for range drawings {
		number := firstPort + rand.IntN(lastPort-firstPort)
		if slices.Contains(ports, number) {
			continue
		}
		err := port.Probe(loopback(number))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			return nil, err
		}
		ports = append(ports, number)
		if len(ports) == n {
			slices.Sort(ports)
			var out []string
			for _, number := range ports {
				out = append(out, loopback(number))
			}
			return out, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports of 127.0.0.1 from %d to %d", n, firstPort, lastPort)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
