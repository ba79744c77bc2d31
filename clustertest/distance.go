package clustertest

import (
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest/fault"
)

// WithDistance delays the traffic between each node and etcd by far(i), one way; i is the node's number.
// Everything that the node sends arrives later by that much, and so does everything that etcd sends:
// connections, answers and watch events. Node.SetDistance changes the delay.
//
// The traffic among nodes, and the test's own client, are not delayed.
func WithDistance(far func(i int) time.Duration) Option { return func(o *options) { o.distance = far } }

// SetDistance sets the one-way delay between the node and etcd. It also applies to data that is under way. It
// requires WithDistance.
func (n *Node) SetDistance(d time.Duration) {
	n.c.t.Helper()
	if n.relay == nil {
		n.c.t.Fatalf("clustertest: node %d has no relay before etcd: make the cluster with WithDistance", n.index)
	}
	n.relay.Delay(fault.Both, d)
}

// placeRelay creates the relay that delays the node's traffic with etcd, and makes cfg connect through it.
func (n *Node) placeRelay(cfg *cluster.Config) error {
	if n.c.opts.distance == nil {
		return nil
	}
	relay, err := fault.NewRelay(n.c.etcd.Endpoint())
	if err != nil {
		return err
	}
	relay.Delay(fault.Both, n.c.opts.distance(n.index))
	n.relay, cfg.EtcdAddress, cfg.FixedEndpoints = relay, relay.Address(), true
	return nil
}

// closeConnections closes the node's etcd client and its relays.
func (n *Node) closeConnections() {
	_ = n.client.Close() // always reports that its context was cancelled
	for _, relay := range []*fault.Relay{n.relay, n.entrance} {
		if relay != nil {
			relay.Close()
		}
	}
}
