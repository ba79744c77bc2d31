package fault

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Relay is a TCP relay: it listens, and connects each of its clients to the target. All methods are safe for
// concurrent use. Faults take effect before the call returns, add up, and last until Heal. A fault that is
// switched on twice has the later setting.
type Relay struct {
	target string
	port   *port

	openMu sync.Mutex // serializes openPort and shutPort; locked before mu

	mu       sync.Mutex
	entrance *entrance // nil while the port refuses
	closed   bool
	lines    map[Direction]*line // ToTarget and FromTarget
	changed  chan struct{}       // closed and replaced when a line's way changes
}

// line is one direction of a relay, shared by all its connections.
type line struct {
	way
	freeAt  time.Time // when a throttled line has carried everything admitted so far
	traffic Traffic
}

// Traffic counts the bytes of one direction of a relay. Bytes that were received and not delivered are held
// back by a fault, or were lost with their connection.
type Traffic struct{ Received, Delivered int64 }

// NewRelay listens on a free port of 127.0.0.1 and relays to target, a host:port that need not exist yet. Close
// ends the relay.
//
// If target is etcd, set FixedEndpoints in the cluster's configuration. Otherwise a node that the relay keeps from etcd
// for some seconds connects to the addresses that etcd's members advertise, past the relay.
func NewRelay(target string) (*Relay, error) { return NewRelayAt("127.0.0.1:0", target) }

// NewRelayAt is NewRelay with the address to listen on, an IPv4 address and a port. If the address is in use,
// the error matches syscall.EADDRINUSE.
func NewRelayAt(address, target string) (*Relay, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() {
		return nil, fmt.Errorf("fault: a relay cannot listen at %q: use an IPv4 address and a port, such as 127.0.0.1:0",
			address)
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("fault: a relay cannot connect to %q: use host:port (%w)", target, err)
	}
	p, err := reserve(at)
	if err != nil {
		return nil, fmt.Errorf("fault: a relay cannot listen at %s: choose another port, or 0 for a free one (%w)",
			address, err)
	}
	r := &Relay{target: target, port: p, changed: make(chan struct{}),
		lines: map[Direction]*line{ToTarget: {}, FromTarget: {}}}
	if err := r.openPort(); err != nil {
		p.release()
		return nil, err
	}
	return r, nil
}

// Address returns the host:port to connect to instead of the target. It never changes.
func (r *Relay) Address() string { return r.port.address }

// Target returns the host:port that clients are connected to.
func (r *Relay) Target() string { return r.target }

// Connections returns the number of connections under way. It includes those that have not reached the target
// yet, and those with one end closed and the other not notified.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entrance == nil {
		return 0
	}
	return r.entrance.countLinks()
}

// Traffic returns the traffic since the relay was created; for Both, the sum of both directions.
func (r *Relay) Traffic(d Direction) Traffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum Traffic
	for _, one := range d.singles() {
		sum.Received += r.lines[one].traffic.Received
		sum.Delivered += r.lines[one].traffic.Delivered
	}
	return sum
}

// Close closes every connection, releases the port, and returns when all goroutines have ended. Closing again
// does nothing. The error is always nil.
func (r *Relay) Close() error {
	r.openMu.Lock()
	defer r.openMu.Unlock()
	r.shutPort()
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		r.port.release()
	}
	return nil
}

// openPort listens on the port unless the relay listens already. The caller holds openMu.
func (r *Relay) openPort() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("fault: the relay was closed: make another (%w)", net.ErrClosed)
	}
	if r.entrance != nil {
		return nil
	}
	l, err := r.port.listen()
	if err != nil {
		return fmt.Errorf("fault: the relay cannot listen at %s again: make another one (%w)", r.port.address, err)
	}
	r.entrance = newEntrance(r, l)
	return nil
}

// shutPort makes the port refuse and returns when all its connections have ended. The caller holds openMu.
func (r *Relay) shutPort() {
	r.mu.Lock()
	e := r.entrance
	r.entrance = nil
	r.mu.Unlock()
	if e != nil {
		e.close()
	}
}

// admitBytes returns how many of the waiting bytes may be delivered now (see way.admitBytes), and reserves the line's
// time for them. changed is closed when the answer may have changed.
func (r *Relay) admitBytes(d Direction, arrived time.Time,
	waiting int) (n int, wait time.Duration, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, now := r.lines[d], time.Now()
	n, wait = l.admitBytes(now, arrived, l.freeAt, waiting)
	if wait == 0 {
		if now.After(l.freeAt) {
			l.freeAt = now
		}
		l.freeAt = l.freeAt.Add(l.carryTime(n))
	}
	return n, wait, r.changed
}

// countTraffic adds to the traffic of a direction.
func (r *Relay) countTraffic(d Direction, received, delivered int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[d].traffic.Received += int64(received)
	r.lines[d].traffic.Delivered += int64(delivered)
}
