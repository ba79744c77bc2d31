package clustertest

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/leak"
	"github.com/goverse/goverse/node"
)

// Node is one node of a cluster under test. All methods are safe for concurrent use.
type Node struct {
	c        *Cluster
	index    int
	node     *node.Node
	cluster  *cluster.Cluster
	client   *clientv3.Client
	faults   *Faults
	relay    *fault.Relay // in front of etcd; nil without WithDistance
	entrance *fault.Relay // in front of the node; nil without WithEntrances

	mu        sync.Mutex
	started   bool
	stopBegun bool             // a stop or kill has begun
	ended     chan struct{}    // closed when the node is down
	lease     clientv3.LeaseID // left behind by a kill
}

// NewNode creates a node without starting it, for tests that set something up before Start. Most tests use
// AddNode.
func (c *Cluster) NewNode() *Node {
	c.t.Helper()
	c.mu.Lock()
	index := len(c.nodes)
	c.mu.Unlock()
	n, err := c.newNode(index)
	if err != nil {
		c.t.Fatalf("clustertest: make node %d: %v", index, err)
	}
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	return n
}

func (c *Cluster) newNode(index int) (n *Node, err error) {
	log := c.opts.logger.Named(fmt.Sprintf("node%d", index))
	cfg := cluster.Config{LeaderElectionTTL: c.opts.ttl, Logger: log}
	for _, alter := range c.opts.alter {
		alter(index, &cfg)
	}
	cfg.EtcdAddress, cfg.EtcdPrefix = c.etcd.Endpoint(), Prefix
	n = &Node{c: c, index: index, ended: make(chan struct{})}
	if err := n.placeRelay(&cfg); err != nil {
		return nil, err
	}
	leak.Labelled(c.label, func() {
		n.client, err = cluster.NewEtcdClient(cfg)
	})
	if err != nil {
		if n.relay != nil {
			n.relay.Close()
		}
		return nil, err
	}
	n.faults = etcdfault.Inject(n.client)
	cfg.Client = n.client
	if err = n.createNode(node.Config{Logger: log}); err == nil {
		n.cluster, err = cluster.NewClusterWithNode(cfg, n.node)
	}
	if err != nil {
		n.closeConnections()
		if n.node != nil {
			_ = n.node.Close() // always nil
		}
		return nil, err
	}
	for _, setUp := range c.opts.setUp {
		setUp(index, n.cluster)
	}
	return n, nil
}

// Start starts a node that NewNode created; see [cluster.Cluster.Start].
func (n *Node) Start(ctx context.Context) error {
	var err error
	leak.Labelled(n.c.label, func() { err = n.cluster.Start(ctx) })
	n.mu.Lock()
	n.started = err == nil
	n.mu.Unlock()
	return err
}

// Cluster returns the node's [cluster.Cluster], as a program would hold it.
func (n *Node) Cluster() *cluster.Cluster { return n.cluster }

// Address returns the node's advertise address.
func (n *Node) Address() string { return n.node.AdvertiseAddress() }

// Faults returns the faults between this node and etcd.
func (n *Node) Faults() *Faults { return n.faults }

// IsLeader reports whether the node claims to lead. It is false when the node is down.
func (n *Node) IsLeader() bool { return n.isRunning() && n.cluster.IsLeader() }

// Lease returns the lease of the node's present session, or 0 while the node has none.
func (n *Node) Lease() clientv3.LeaseID { return n.cluster.Session().ID() }

func (n *Node) isRunning() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.started && !n.stopBegun
}

// Stop stops the node gracefully and returns when it is down. It fails the test if that does not work. It does
// nothing to a node that was stopped or killed before, but still waits until that node is down.
func (n *Node) Stop() {
	ctx, cancel := n.c.waitContext()
	defer cancel()
	if err := n.StopContext(ctx); err != nil {
		n.c.t.Errorf("clustertest: stop node %d: %v", n.index, err)
	}
}

// StopContext is Stop with a context, for tests of a stop that is cut short. It returns the error of
// [cluster.Cluster.Stop], or nil if the node was stopped or killed before.
func (n *Node) StopContext(ctx context.Context) error {
	if !n.beginStop() {
		<-n.ended
		return nil
	}
	defer close(n.ended)
	err := n.cluster.Stop(ctx)
	n.closeConnections()
	return err
}

// Kill makes the node vanish as a crash would. Its port refuses connections, nothing it sends reaches etcd any
// more, and its lease is left to expire. The rest of the node inside this process ends in the background and is
// joined when the test ends.
func (n *Node) Kill() {
	if !n.beginStop() {
		<-n.ended
		return
	}
	n.mu.Lock()
	n.lease = n.Lease()
	n.mu.Unlock()
	n.faults.Kill()
	if n.entrance != nil {
		n.entrance.Refuse()
	}
	_ = n.node.Close() // always nil
	n.c.wg.Go(func() {
		defer close(n.ended)
		// A dead process resigns nothing. With an ended context Stop hands nothing over, and nothing would
		// reach etcd.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = n.cluster.Stop(ctx) // the error lists what was cut short
		n.closeConnections()
	})
}

func (n *Node) beginStop() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.stopBegun
	n.stopBegun = true
	return first
}
