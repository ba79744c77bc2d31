//go:build !unix || solaris

package fault

import (
	"net"
	"net/netip"
)

// port is a port that is ours while we listen at it.
type port struct{ address string }

// reserve chooses a port, a free one for port 0.
func reserve(at netip.AddrPort) (*port, error) {
	l, err := net.Listen("tcp4", at.String())
	if err != nil {
		return nil, err
	}
	return &port{address: l.Addr().String()}, l.Close()
}

// listen listens at the port, unless somebody was faster.
func (p *port) listen() (net.Listener, error) { return net.Listen("tcp4", p.address) }

// release does nothing: the port went with the listener.
func (p *port) release() {}
