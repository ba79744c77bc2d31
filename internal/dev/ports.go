package dev

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"

	"github.com/goverse/goverse/internal/port"
)

// Ports are drawn from below the range that the usual systems give to outgoing
// connections: a replacement must find its predecessor's port free.
const (
	firstPort, lastPort = 20000, 32000
	drawings            = 100
)

// freeAddresses returns n different addresses of 127.0.0.1 that could be bound just
// now. Another program may still be faster: whoever binds them tries again.
func freeAddresses(n int) ([]string, error) {
	var out []string
	seen := map[int]bool{}
	for range drawings * n {
		number := firstPort + rand.IntN(lastPort-firstPort)
		if seen[number] {
			continue
		}
		seen[number] = true
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
		err := port.Probe(address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("no port of 127.0.0.1 can be bound: allow this program to listen there (%w)", err)
		}
		if out = append(out, address); len(out) == n {
			return out, nil
		}
	}
	return nil, fmt.Errorf("found no %d free ports of 127.0.0.1 from %d to %d: stop what uses them", n, firstPort,
		lastPort-1)
}
