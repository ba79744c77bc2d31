package clustertest

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/node"
)

// WithEntrances puts a relay at each node's advertise address, which can refuse connections while the node
// lives; see Node.Refuse. It needs the address 127.0.0.2, which Linux has by default.
func WithEntrances() Option { return func(o *options) { o.entrances = true } }

// Refuse closes all connections that other processes have opened to the node, and refuses new ones, as a host
// does after its process has ended. The node lives, reaches etcd and connects to others. Refuse requires
// WithEntrances and lasts until Accept.
func (n *Node) Refuse() {
	n.c.t.Helper()
	n.mustHaveEntrance()
	n.entrance.Refuse()
}

// Accept ends Refuse: the node's address accepts connections again.
func (n *Node) Accept() {
	n.c.t.Helper()
	n.mustHaveEntrance()
	if err := n.entrance.Heal(); err != nil {
		n.c.t.Fatalf("clustertest: node %d accepts connections again: %v", n.index, err)
	}
}

func (n *Node) mustHaveEntrance() {
	n.c.t.Helper()
	if n.entrance == nil {
		n.c.t.Fatalf("clustertest: node %d has no relay at its address: make the cluster with WithEntrances", n.index)
	}
}

// entranceAttempts limits the ports that createNode tries to find one that is free at both addresses.
const entranceAttempts = 20

// createNode creates the node at a port of its own and, with WithEntrances, a relay in front of it.
func (n *Node) createNode(cfg node.Config) (err error) {
	if !n.c.opts.entrances {
		cfg.AdvertiseAddress = "127.0.0.1:0"
		n.node, err = node.NewNode(cfg)
		return err
	}
	for range entranceAttempts {
		// The same port number at both addresses. Other programs rarely ask for a port of 127.0.0.2.
		if cfg.ListenAddress, err = port.Servers.Draw("127.0.0.2"); err != nil {
			return fmt.Errorf("WithEntrances: %w", err)
		}
		_, number, _ := net.SplitHostPort(cfg.ListenAddress) // ListenAddress is a valid address
		relay, err := fault.NewRelayAt(net.JoinHostPort("127.0.0.1", number), cfg.ListenAddress)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return err
		}
		cfg.AdvertiseAddress = relay.Address()
		if n.node, err = node.NewNode(cfg); err != nil {
			relay.Close()
			return err
		}
		n.entrance = relay
		return nil
	}
	return errors.New("WithEntrances: no port is free at 127.0.0.1 and 127.0.0.2")
}
