package clustertest

import (
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest/fault"
)

// WithDistance puts each node so far from etcd, one way, as far says for its number: all
// that it sends arrives that much later, and so does all that etcd sends, answers and events
// of watches alike. It begins with the connection. Node.SetDistance alters it.
//
// Nodes among themselves, and the test's own client, stay as near as they are.
func WithDistance(far func(i int) time.Duration) Option { return func(o *options) { o.distance = far } }

// SetDistance puts the node so far from etcd, one way, from now on, also what is under way.
// It needs WithDistance.
func (n *Node) SetDistance(d time.Duration) {
	n.c.t.Helper()
	if n.relay == nil {
		n.c.t.Fatalf("clustertest: node %d has no relay before etcd: make the cluster with WithDistance", n.index)
	}
	n.relay.Delay(fault.Both, d)
}

// place puts the node at its distance, and makes cfg reach etcd from there.
func (n *Node) place(cfg *cluster.Config) error {
	if n.c.opts.distance == nil {
		return nil
	}
	relay, err := fault.NewRelay(n.c.etcd.Endpoint())
	if err != nil {
		return err
	}
	relay.Delay(fault.Both, n.c.opts.distance(n.index))
	n.relay, cfg.EtcdAddress = relay, relay.Address()
	return nil
}

// closeWays closes the node's ways to etcd and to other nodes.
func (n *Node) closeWays() {
	_ = n.client.Close() // its error is that its context was cancelled
	for _, relay := range []*fault.Relay{n.relay, n.entrance} {
		if relay != nil {
			relay.Close()
		}
	}
}
