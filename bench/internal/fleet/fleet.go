package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/node"
)

// requestTimeout is long because the requests that a thousand nodes send at the same time share a few cores.
// With the default of 2 s, nodes would time out and repeat requests that etcd has already served, which would
// slow all of them further.
const requestTimeout = time.Minute

// Node is one node of a fleet.
type Node struct {
	*cluster.Cluster
	// Address is its advertise address.
	Address string

	wire   *wire
	server *node.Node
	place  int // index of its connection
}

// Ranges counts the Range requests that n has sent since it was created, including restarts.
func (n *Node) Ranges() int64 { return n.wire.ranges.Load() }

// Mute blocks all further requests of n to etcd until Unmute. The node still receives watch events, but cannot
// react to them.
func (n *Node) Mute() { n.wire.mute() }

// Unmute lets the requests through.
func (n *Node) Unmute() { n.wire.unmute() }

// Fleet is a cluster of nodes in this process. Its methods are not safe for concurrent use.
type Fleet struct {
	Nodes []*Node

	endpoint string
	cfg      cluster.Config
	ports    *block
	clients  []*clientv3.Client
	free     []int // places of removed nodes
}

// New binds n nodes to free ports and connects them to etcd, without starting any. All have the configuration cfg, but
// with a client of the fleet's and a long RequestTimeout. On an error it releases everything.
func New(ctx context.Context, endpoint string, n int, cfg cluster.Config) (*Fleet, error) {
	ports, err := claimBlock()
	if err != nil {
		return nil, err
	}
	cfg.RequestTimeout = requestTimeout
	f := &Fleet{endpoint: endpoint, cfg: cfg, ports: ports}
	if f.clients, err = Connect(ctx, endpoint, Connections(n)); err != nil {
		ports.release()
		return nil, err
	}
	for i := range n {
		added, err := f.drawn(i)
		if err != nil {
			return nil, errors.Join(err, f.Stop(ctx))
		}
		f.Nodes = append(f.Nodes, added)
	}
	return f, nil
}

// drawn returns a new node for the place, bound to a free port.
func (f *Fleet) drawn(place int) (*Node, error) {
	for attempt := 1; ; attempt++ {
		address, err := f.ports.Draw("127.0.0.1")
		if err != nil {
			return nil, err
		}
		n := &Node{Address: address, wire: &wire{}, place: place}
		err = f.bind(n)
		if err == nil || !errors.Is(err, node.ErrAddressInUse) || attempt == drawings {
			return n, err
		}
	}
}

// bind creates n's server and cluster, for the first time or again.
func (f *Fleet) bind(n *Node) error {
	server, err := node.NewNode(node.Config{ListenAddress: n.Address})
	if err != nil {
		return err
	}
	cfg := f.cfg
	cfg.Client = n.wire.client(f.clients[connection(n.place, len(f.clients))])
	c, err := cluster.NewClusterWithNode(cfg, server)
	if err != nil {
		_ = server.Close() // always nil
		return err
	}
	n.Cluster, n.server = c, server
	return nil
}

// Start starts all nodes concurrently and returns when each is registered and queued.
func (f *Fleet) Start(ctx context.Context) error {
	return f.each(func(n *Node) error { return n.Start(ctx) })
}

// Stop stops all nodes gracefully, one after the other, and closes their connections. It does not stop them
// concurrently: a stopping node gives etcd one second to revoke its lease, and of a thousand nodes on a few
// cores hardly any would get the answer in time.
func (f *Fleet) Stop(ctx context.Context) error {
	var err error
	for i, n := range f.Nodes {
		if stopErr := n.Cluster.Stop(ctx); stopErr != nil && err == nil {
			err = fmt.Errorf("stop %s, the %dth of %d: %w", n.Address, i+1, len(f.Nodes), stopErr)
		}
	}
	Disconnect(f.clients)
	f.ports.release()
	f.Nodes, f.clients = nil, nil
	return err
}

// Replace starts a new node at another port in the place of old, which has stopped.
func (f *Fleet) Replace(ctx context.Context, old *Node) (*Node, error) {
	n, err := f.drawn(old.place)
	if err != nil {
		return nil, err
	}
	f.Nodes[slices.Index(f.Nodes, old)] = n
	return n, n.Start(ctx)
}

// Remove removes n, which has stopped or was killed, from the fleet.
func (f *Fleet) Remove(n *Node) {
	i := slices.Index(f.Nodes, n)
	f.Nodes = slices.Delete(f.Nodes, i, i+1)
	f.free = append(f.free, n.place)
}

// Add starts a new node in the place of one that was removed.
func (f *Fleet) Add(ctx context.Context) (*Node, error) {
	last := len(f.free) - 1
	n, err := f.drawn(f.free[last])
	if err != nil {
		return nil, err
	}
	f.free = f.free[:last]
	f.Nodes = append(f.Nodes, n)
	return n, n.Start(ctx)
}

// each calls do for all nodes concurrently.
func (f *Fleet) each(do func(*Node) error) error {
	errs := make([]error, len(f.Nodes))
	var wg sync.WaitGroup
	for i, n := range f.Nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d nodes failed, the first so: %w", len(failed), len(f.Nodes), failed[0])
}
