//go:build unix

package chaos

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/clustertest/fault"
)

// openPaths puts a relay on the connections that each node opens to each other one, in front of the relay that belongs
// to that one. Faults can then concern a pair of nodes.
func (w *world) openPaths() error {
	for _, n := range w.nodes {
		n.paths = make([]*fault.Relay, len(w.nodes))
		for _, to := range w.nodes {
			if to == n {
				continue
			}
			var err error
			if n.paths[to.index], err = fault.NewRelay(to.address()); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachPath calls f for the relays on the connections that the node opens to others.
func (n *chaosNode) eachPath(f func(*fault.Relay)) {
	for _, r := range n.paths {
		if r != nil {
			f(r)
		}
	}
}

// pathAddresses returns the address of the relay to each other node, by that node's address.
func (n *chaosNode) pathAddresses() map[string]string {
	out := map[string]string{}
	n.eachPath(func(r *fault.Relay) { out[r.Target()] = r.Address() })
	return out
}

// dropPackets drops all packets that the node receives (ToTarget), sends (FromTarget), or both.
func (n *chaosNode) dropPackets(d fault.Direction) {
	n.entrance.Blackhole(d)
	for _, l := range n.links {
		l.Blackhole(reverse(d))
	}
	n.eachPath(func(r *fault.Relay) { r.Blackhole(reverse(d)) })
}

// dropPacketsTo drops the packets from the node to another one, whichever of them opened the connection.
func (n *chaosNode) dropPacketsTo(other *chaosNode) {
	n.paths[other.index].Blackhole(fault.ToTarget)
	other.paths[n.index].Blackhole(fault.FromTarget)
}

// healPair ends all faults between the node and another one.
func (n *chaosNode) healPair(other *chaosNode) error {
	return errors.Join(n.paths[other.index].Heal(), other.paths[n.index].Heal())
}

// reverse returns the direction at the other end of a connection.
func reverse(d fault.Direction) fault.Direction {
	switch d {
	case fault.ToTarget:
		return fault.FromTarget
	case fault.FromTarget:
		return fault.ToTarget
	default:
		return d
	}
}

// pathOptions returns the options by which a node connects to others through the relays at these addresses.
func pathOptions(addresses map[string]string) []grpc.DialOption {
	if len(addresses) == 0 {
		return nil
	}
	return []grpc.DialOption{grpc.WithTransportCredentials(pathCredentials{insecure.NewCredentials(), addresses})}
}

// pathCredentials replaces a connection to another node by one through the relay on that path. Nodes accept no dialer
// from their users, because only their own one detects refused connections, and it still does.
type pathCredentials struct {
	credentials.TransportCredentials
	addresses map[string]string
}

// ClientHandshake implements credentials.TransportCredentials.
func (p pathCredentials) ClientHandshake(ctx context.Context, authority string,
	direct net.Conn) (net.Conn, credentials.AuthInfo, error) {
	address, ok := p.addresses[direct.RemoteAddr().String()]
	if !ok {
		return p.TransportCredentials.ClientHandshake(ctx, authority, direct)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	_ = direct.Close() // it has shown that the node's port is open
	by := &pathConn{Conn: conn}
	context.AfterFunc(ctx, by.closeUnanswered)
	return p.TransportCredentials.ClientHandshake(ctx, authority, by)
}

// Clone implements credentials.TransportCredentials.
func (p pathCredentials) Clone() credentials.TransportCredentials {
	return pathCredentials{p.TransportCredentials.Clone(), p.addresses}
}

// pathConn is a connection through such a relay.
type pathConn struct {
	net.Conn
	answered atomic.Bool // something was received
}

// Read implements net.Conn.
func (c *pathConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

// closeUnanswered closes the connection if nothing was received. gRPC limits the time until the first bytes, by the
// context of the handshake, and to do so closes the connection that it dialed.
func (c *pathConn) closeUnanswered() {
	if !c.answered.Load() {
		_ = c.Close() // it may be closed already
	}
}
