//go:build !unix || solaris

package fault

import (
	"net"
	"net/netip"
)

// port is a port that is reserved only while the relay listens on it.
type port struct{ address string }

// reserve chooses a port; port 0 stands for any free one.
func reserve(at netip.AddrPort) (*port, error) {
	l, err := net.Listen("tcp4", at.String())
	if err != nil {
		return nil, err
	}
	return &port{address: l.Addr().String()}, l.Close()
}

// listen listens on the port. It fails if another program has taken the port.
func (p *port) listen() (net.Listener, error) { return net.Listen("tcp4", p.address) }

// release does nothing, because the port was released with the listener.
func (p *port) release() {}
