package clustertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/state"
)

// Prefix is where the nodes' keys are in etcd. What follows it is in docs/protocols.md.
const Prefix = "/goverse"

// Cluster is a cluster under test. Its methods may be called concurrently; those
// that can fail the test only from the test's own goroutine, as testing.TB asks.
type Cluster struct {
	t     testing.TB
	opts  options
	keys  state.Keys
	etcd  *embedetcd.Server
	label string // of the goroutines of its nodes

	wg sync.WaitGroup // nodes that were killed, while they are taken down

	mu    sync.Mutex
	nodes []*Node
	late  []string // keys put from outside, to be removed at the end
}

// clusters numbers the clusters of this process, to tell their goroutines apart.
var clusters atomic.Int64

// New starts an etcd and n nodes, one after the other, so that they queue in the
// order of their numbers; n may be 0. It returns when all of them are queued. The
// test fails at once if that does not work, and at its end if something is left
// behind. Everything is stopped then.
func New(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, opts: defaults(), label: fmt.Sprint("clustertest-", clusters.Add(1))}
	for _, opt := range opts {
		opt(&c.opts)
	}
	var err error
	if c.keys, err = state.NewKeys(Prefix); err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	ctx, cancel := c.patience()
	defer cancel()
	if c.etcd, err = embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{})); err != nil {
		t.Fatalf("clustertest: start etcd: %v", err)
	}
	t.Cleanup(c.cleanup)
	for range n {
		c.AddNode()
	}
	return c
}

// Etcd is the etcd that the nodes use.
func (c *Cluster) Etcd() *embedetcd.Server { return c.etcd }

// Client is a client of etcd that no fault touches. It is closed with the test.
func (c *Cluster) Client() *clientv3.Client { return c.etcd.Client() }

// Nodes are all nodes ever added, those that were stopped or killed as well.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Node is the node with that number, counted from 0 in the order of addition. A
// number that does not exist panics.
func (c *Cluster) Node(i int) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// NodeAt is the newest node at that address, nil if there is none.
func (c *Cluster) NodeAt(address string) *Node {
	for _, n := range slices.Backward(c.Nodes()) {
		if n.Address() == address {
			return n
		}
	}
	return nil
}

// AddNode makes a node, starts it, and returns when it is queued.
func (c *Cluster) AddNode() *Node {
	c.t.Helper()
	n := c.NewNode()
	ctx, cancel := c.patience()
	defer cancel()
	if err := n.Start(ctx); err != nil {
		c.fail("start node %d: %v", n.index, err)
	}
	return n
}

// Live are the nodes that run and are not cut off from etcd.
func (c *Cluster) Live() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return !n.running() || n.faults.cutOff() })
}

func (c *Cluster) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.opts.patience)
}

// cleanup stops everything and looks for what is left.
func (c *Cluster) cleanup() {
	var wg sync.WaitGroup
	for _, n := range c.Nodes() {
		n.faults.Heal()
		wg.Go(n.Stop)
	}
	wg.Wait()
	c.wg.Wait()
	c.sweep()
	if !c.t.Failed() {
		c.checkKeys()
		c.checkGoroutines()
	}
	if err := c.etcd.Close(); err != nil {
		c.t.Errorf("clustertest: close etcd: %v", err)
	}
}
