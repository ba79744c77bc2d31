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

// requestTimeout is long, because here the answers of a thousand nodes that do
// something at once wait for the same few cores. Who gave up after the default of 2 s
// would send once more what etcd has done already, and so would all.
const requestTimeout = time.Minute

// Node is one of a fleet.
type Node struct {
	*cluster.Cluster
	// Address is its advertise address.
	Address string

	wire   *wire
	server *node.Node
	place  int // which connection it has
}

// Ranges counts the Range requests that n sent, over all its lives.
func (n *Node) Ranges() int64 { return n.wire.ranges.Load() }

// Mute keeps all further requests of n from etcd until Unmute. It goes on receiving events
// what happens: it is a node that can do nothing about it.
func (n *Node) Mute() { n.wire.mute() }

// Unmute lets the requests through.
func (n *Node) Unmute() { n.wire.unmute() }

// Fleet is a cluster of nodes in this process. Its methods are for one goroutine.
type Fleet struct {
	Nodes []*Node

	endpoint string
	ttl      time.Duration
	sharding cluster.Sharding
	ports    *block
	clients  []*clientv3.Client
	free     []int // places of nodes that were removed
}

// New binds n nodes to free ports and connects them to etcd; none is started. All have the
// same part in the shards. On an error nothing is left.
func New(ctx context.Context, endpoint string, n int, ttl time.Duration, sharding cluster.Sharding) (*Fleet, error) {
	ports, err := claimBlock()
	if err != nil {
		return nil, err
	}
	f := &Fleet{endpoint: endpoint, ttl: ttl, sharding: sharding, ports: ports}
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

// config is every node's, its client apart: what a cluster is by default, crash
// detection included, but for the shards.
func (f *Fleet) config() cluster.Config {
	return cluster.Config{LeaderElectionTTL: int(f.ttl / time.Second), RequestTimeout: requestTimeout,
		Sharding: f.sharding}
}

// drawn is a new node, bound to a free port, for a place.
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

// bind gives n a life: its first, or another one.
func (f *Fleet) bind(n *Node) error {
	server, err := node.NewNode(node.Config{ListenAddress: n.Address})
	if err != nil {
		return err
	}
	cfg := f.config()
	cfg.Client = n.wire.client(f.clients[connection(n.place, len(f.clients))])
	c, err := cluster.NewClusterWithNode(cfg, server)
	if err != nil {
		_ = server.Close() // always nil
		return err
	}
	n.Cluster, n.server = c, server
	return nil
}

// Start starts all nodes at once and returns when each is registered and queued.
func (f *Fleet) Start(ctx context.Context) error {
	return f.each(func(n *Node) error { return n.Start(ctx) })
}

// Stop stops all nodes gracefully, one after the other, and closes their connections.
// Not at once: a node that stops gives etcd a second to revoke its lease, and of a
// thousand that share a few cores hardly one would have its answer by then.
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

// Replace gives the place of old, which has stopped, to a new node at another port,
// and starts that.
func (f *Fleet) Replace(ctx context.Context, old *Node) (*Node, error) {
	n, err := f.drawn(old.place)
	if err != nil {
		return nil, err
	}
	f.Nodes[slices.Index(f.Nodes, old)] = n
	return n, n.Start(ctx)
}

// Remove takes n, which has stopped or was killed, out of the fleet.
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

// each calls do for all nodes at once.
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
