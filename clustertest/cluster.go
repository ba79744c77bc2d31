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

// Prefix is the etcd prefix of the nodes' keys. docs/protocols.md lists the keys below it.
const Prefix = "/goverse"

// Cluster is a cluster under test. Its methods are safe for concurrent use. As testing.TB requires, the methods
// that can fail the test may only be called from the test's own goroutine.
type Cluster struct {
	t     testing.TB
	opts  options
	keys  state.Keys
	etcd  *embedetcd.Server
	label string // labels the goroutines of its nodes

	wg sync.WaitGroup // the shutdown of killed nodes

	mu        sync.Mutex
	nodes     []*Node
	strayKeys []string // keys from PutStrayKey, deleted at the end
}

// clusters counts the clusters of this process; the count tells their goroutines apart.
var clusters atomic.Int64

// New starts an etcd and n nodes, one after the other, and returns when all of them are queued, in the order of
// their numbers. n may be 0. If a start fails, the test fails at once. New registers a cleanup that stops
// everything and fails the test if a goroutine or a key is left behind.
func New(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, opts: defaultOptions(), label: fmt.Sprint("clustertest-", clusters.Add(1))}
	for _, opt := range opts {
		opt(&c.opts)
	}
	var err error
	if c.keys, err = state.NewKeys(Prefix); err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	ctx, cancel := c.waitContext()
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

// Etcd returns the etcd that the nodes use.
func (c *Cluster) Etcd() *embedetcd.Server { return c.etcd }

// Client returns an etcd client that no fault affects. It is closed when the test ends.
func (c *Cluster) Client() *clientv3.Client { return c.etcd.Client() }

// Nodes returns all nodes ever added, including those that were stopped or killed.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Node returns the i-th node, counted from 0 in the order of addition. It panics if there is no such node.
func (c *Cluster) Node(i int) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// NodeAt returns the newest node at the address, or nil if there is none.
func (c *Cluster) NodeAt(address string) *Node {
	for _, n := range slices.Backward(c.Nodes()) {
		if n.Address() == address {
			return n
		}
	}
	return nil
}

// AddNode creates a node, starts it, and returns when it is queued.
func (c *Cluster) AddNode() *Node {
	c.t.Helper()
	n := c.NewNode()
	ctx, cancel := c.waitContext()
	defer cancel()
	if err := n.Start(ctx); err != nil {
		c.failTest("start node %d: %v", n.index, err)
	}
	return n
}

// Live returns the nodes that run and are not cut off from etcd.
func (c *Cluster) Live() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return !n.isRunning() || n.faults.IsCutOff() })
}

func (c *Cluster) waitContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.opts.patience)
}

// cleanup stops everything and fails the test if a key or a goroutine is left.
func (c *Cluster) cleanup() {
	var wg sync.WaitGroup
	for _, n := range c.Nodes() {
		n.faults.Heal()
		wg.Go(n.Stop)
	}
	wg.Wait()
	c.wg.Wait()
	c.deleteLeftovers()
	if !c.t.Failed() {
		c.checkKeys()
		c.checkGoroutines()
	}
	if err := c.etcd.Close(); err != nil {
		c.t.Errorf("clustertest: close etcd: %v", err)
	}
}
