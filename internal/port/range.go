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

// The ranges lie below the ports that the usual systems give to outgoing connections: a server that restarts at
// its address must not find that some client was given its port meanwhile.
var (
	// Servers is what everything draws from that needs an address to listen at.
	Servers = NewRange(20000, 32000)
	// Restarted is for tests that start processes again at the same address: what other programs draw from
	// Servers while such a process is down is never its port.
	Restarted = NewRange(12000, 20000)
)

// drawings is how many ports are tried for one that is free.
const drawings = 100

// Range is a range of ports to draw from. It is safe for concurrent use.
type Range struct {
	first, size int

	mu           sync.Mutex
	last, stride int // the last number drawn, counted from first, and the way to the next one; 0: none yet
}

// NewRange is the range of the ports from first, at least two, that are smaller than end.
func NewRange(first, end int) *Range { return &Range{first: first, size: end - first} }

// Draw returns an address of host, with a port at which nothing listens, and which this process draws again
// only after all others of the range. Another program may still be faster to listen there: the caller draws
// again. An error is that of binding the last address tried, which is returned with it.
func (r *Range) Draw(host string) (address string, err error) {
	for range drawings {
		address = net.JoinHostPort(host, strconv.Itoa(r.next()))
		if err = Probe(address); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return address, err
}

// Loopback draws n addresses of 127.0.0.1, in the order of their ports.
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

// next goes through the range in an order that is another one in each process.
func (r *Range) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stride == 0 {
		r.last = rand.IntN(r.size)
		for r.stride = r.size; divisor(r.stride, r.size) > 1; {
			r.stride = 1 + rand.IntN(r.size)
		}
	}
	r.last = (r.last + r.stride) % r.size
	return r.first + r.last
}

// divisor is the greatest of both: 1 where steps of a go through all of b numbers.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
