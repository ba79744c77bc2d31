// Package relay is a TCP relay that can swallow packets: what a network does that
// drops them, seen from a program. Nothing is closed and nothing refused; the two
// sides just do not hear of each other.
//
//	client ──► relay ──► server
//
// # What is not promised
//
// The kernel under the relay still acknowledges what it takes in, so a connection
// attempt succeeds and then stays silent, where a real network would leave it
// without an answer too, but one step earlier. What was swallowed is held and
// arrives when the fault is lifted, as TCP's retransmission would bring it.
package relay

import (
	"net"
	"sync"
)

// Fault says which direction is swallowed.
type Fault int

// The faults.
const (
	// Pass lets everything through.
	Pass Fault = iota
	// DropReplies swallows what the server sends.
	DropReplies
	// DropBoth swallows both directions.
	DropBoth
)

// Relay is one listening relay. All methods are safe for concurrent use.
type Relay struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed and replaced when fault changes
	closed  bool
	conns   map[net.Conn]struct{}
}

// New listens at a free port of 127.0.0.1 and relays to target, a host:port.
func New(target string) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	r.wg.Go(r.accept)
	return r, nil
}

// Address is the host:port to connect to instead of the target.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Set changes the fault from now on. A byte that was being written still passes.
func (r *Relay) Set(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
	close(r.changed)
	r.changed = make(chan struct{})
}

// Close cuts every connection and joins every goroutine.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	close(r.changed)
	r.changed = make(chan struct{})
	_ = r.listener.Close()
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() {
			server, err := net.Dial("tcp", r.target)
			if err != nil {
				_ = client.Close()
				return
			}
			if !r.keep(client, server) {
				return
			}
			r.wg.Go(func() { r.pump(server, client, DropBoth) })
			r.wg.Go(func() { r.pump(client, server, DropReplies) })
		})
	}
}

// keep registers both ends, or closes them when the relay is closed already.
func (r *Relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.closed {
			_ = c.Close()
			continue
		}
		r.conns[c] = struct{}{}
	}
	return !r.closed
}

// pump copies until either end closes; from the fault named by blockedBy on it
// holds what it has and reads nothing more.
func (r *Relay) pump(to, from net.Conn, blockedBy Fault) {
	buf := make([]byte, 32<<10)
	for {
		if !r.pass(blockedBy) {
			break
		}
		n, err := from.Read(buf)
		if n > 0 {
			if !r.pass(blockedBy) {
				break
			}
			if _, werr := to.Write(buf[:n]); werr != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	r.drop(to, from)
}

func (r *Relay) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(r.conns, c)
	}
}

// pass waits while the fault is at or beyond blockedBy; false: the relay closed.
func (r *Relay) pass(blockedBy Fault) bool {
	for {
		r.mu.Lock()
		fault, changed, closed := r.fault, r.changed, r.closed
		r.mu.Unlock()
		if closed {
			return false
		}
		if fault < blockedBy {
			return true
		}
		<-changed
	}
}
