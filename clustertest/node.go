package clustertest

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/leak"
	"github.com/goverse/goverse/node"
)

// Node is one node of a cluster under test. All methods are safe for concurrent
// use.
type Node struct {
	c        *Cluster
	index    int
	node     *node.Node
	cluster  *cluster.Cluster
	client   *clientv3.Client
	faults   *Faults
	relay    *fault.Relay // before etcd; nil without WithDistance
	entrance *fault.Relay // before the node; nil without WithEntrances

	mu      sync.Mutex
	started bool
	over    bool             // stopped or killed, or about to be
	ended   chan struct{}    // closed when it is down
	lease   clientv3.LeaseID // that a kill left behind
}

// NewNode makes a node that is not started yet: for what is to be set up before
// its Start. Most tests want AddNode.
func (c *Cluster) NewNode() *Node {
	c.t.Helper()
	c.mu.Lock()
	index := len(c.nodes)
	c.mu.Unlock()
	n, err := c.makeNode(index)
	if err != nil {
		c.t.Fatalf("clustertest: make node %d: %v", index, err)
	}
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	return n
}

func (c *Cluster) makeNode(index int) (n *Node, err error) {
	log := c.opts.logger.Named(fmt.Sprintf("node%d", index))
	cfg := cluster.Config{LeaderElectionTTL: c.opts.ttl, Logger: log}
	for _, alter := range c.opts.alter {
		alter(index, &cfg)
	}
	cfg.EtcdAddress, cfg.EtcdPrefix = c.etcd.Endpoint(), Prefix
	n = &Node{c: c, index: index, ended: make(chan struct{})}
	if err := n.place(&cfg); err != nil {
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
	n.faults = Inject(n.client)
	cfg.Client = n.client
	if err = n.enter(node.Config{Logger: log}); err == nil {
		n.cluster, err = cluster.NewClusterWithNode(cfg, n.node)
	}
	if err != nil {
		n.closeWays()
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

// Start starts a node that NewNode made; see [cluster.Cluster.Start].
func (n *Node) Start(ctx context.Context) error {
	var err error
	leak.Labelled(n.c.label, func() { err = n.cluster.Start(ctx) })
	n.mu.Lock()
	n.started = err == nil
	n.mu.Unlock()
	return err
}

// Cluster is the node's part in the cluster: what a program would hold.
func (n *Node) Cluster() *cluster.Cluster { return n.cluster }

// Address is the node's advertise address.
func (n *Node) Address() string { return n.node.AdvertiseAddress() }

// Faults are the faults between this node and etcd.
func (n *Node) Faults() *Faults { return n.faults }

// IsLeader reports whether the node says that it leads; false when it is down.
func (n *Node) IsLeader() bool { return n.running() && n.cluster.IsLeader() }

// Lease is the lease of the node's present session, 0 between two of them.
func (n *Node) Lease() clientv3.LeaseID { return n.cluster.Session().ID() }

func (n *Node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.started && !n.over
}

// Stop stops the node gracefully, and returns when it is down. It fails the test
// if that does not work. A node that is down already stays so.
func (n *Node) Stop() {
	ctx, cancel := n.c.patience()
	defer cancel()
	if err := n.StopContext(ctx); err != nil {
		n.c.t.Errorf("clustertest: stop node %d: %v", n.index, err)
	}
}

// StopContext is Stop for tests of a stop that is cut short: it takes until ctx ends, and returns what
// [cluster.Cluster.Stop] does.
func (n *Node) StopContext(ctx context.Context) error {
	if !n.begin() {
		<-n.ended
		return nil
	}
	defer close(n.ended)
	err := n.cluster.Stop(ctx)
	n.closeWays()
	return err
}

// Kill makes the node vanish as a crash would: its port refuses, etcd hears
// nothing of it any more, and its lease is left to run out. What is left of it
// inside this process ends in the background; it is joined with the test.
func (n *Node) Kill() {
	if !n.begin() {
		<-n.ended
		return
	}
	n.mu.Lock()
	n.lease = n.Lease()
	n.mu.Unlock()
	n.faults.die()
	if n.entrance != nil {
		n.entrance.Refuse()
	}
	_ = n.node.Close() // always nil
	n.c.wg.Go(func() {
		defer close(n.ended)
		// A dead process takes no leave: without a context nothing is handed over,
		// and nothing would reach etcd.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = n.cluster.Stop(ctx) // says what was cut short
		n.closeWays()
	})
}

func (n *Node) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.over
	n.over = true
	return first
}
