package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// The ranges lie below the ports that common systems assign to outgoing connections. A server that restarts at
// its address would otherwise find its port assigned to a client meanwhile.
var (
	// Servers is the range for every program that needs an address to listen at.
	Servers = NewRange(20000, 32000)
	// Restarted is the range for tests that restart processes at the same address. Programs that draw from
	// Servers while such a process is down never get its port.
	Restarted = NewRange(12000, 20000)
)

// maxDraws limits the ports that Draw tries.
const maxDraws = 100

// Range is a range of ports to draw from. It is safe for concurrent use.
type Range struct {
	first, size int

	mu           sync.Mutex
	last, stride int // the last number drawn, counted from first, and the step to the next; stride 0: none was drawn
}

// NewRange returns the range of the ports from first up to end, without end. It must hold at least two ports.
func NewRange(first, end int) *Range { return &Range{first: first, size: end - first} }

// Draw returns an address of host with a free port. This process draws that port again only after all others
// of the range. Another program may take the port first; the caller then draws again. If Draw fails it returns
// the error of binding the last address that it tried, and that address.
func (r *Range) Draw(host string) (address string, err error) {
	for range maxDraws {
		address = net.JoinHostPort(host, strconv.Itoa(r.nextPort()))
		if err = Probe(address); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return address, err
}

// Loopback draws n addresses of 127.0.0.1, sorted by port.
func (r *Range) Loopback(n int) ([]string, error) {
	var out []string
	for range n {
		address, err := r.Draw("127.0.0.1")
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("found no %d free ports of 127.0.0.1 from %d to %d: stop what uses them (%w)", n, r.first,
				r.first+r.size-1, err)
		}
		if err != nil {
			return nil, fmt.Errorf("no port of 127.0.0.1 can be bound: allow this program to listen there (%w)", err)
		}
		out = append(out, address)
	}
	slices.Sort(out) // all ports have five digits
	return out, nil
}

// nextPort returns the next port of a walk through the whole range. Each process walks in a different order.
func (r *Range) nextPort() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stride == 0 {
		r.last = rand.IntN(r.size)
		for r.stride = r.size; commonDivisor(r.stride, r.size) > 1; {
			r.stride = 1 + rand.IntN(r.size)
		}
	}
	r.last = (r.last + r.stride) % r.size
	return r.first + r.last
}

// commonDivisor returns the greatest common divisor of a and b. If it is 1, steps of a visit all of b numbers.
func commonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
