package fleet

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
)

// Crash makes all nodes vanish at the same time, like a power failure: their connections end, and their keys
// and leases stay in etcd.
func (f *Fleet) Crash() error {
	Disconnect(f.clients)
	f.clients = nil
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return f.each(func(n *Node) error { return n.abandoned(n.Cluster.Stop(over)) })
}

// Kill makes n vanish like the death of its process: all its connections end without a goodbye, and its keys
// and lease stay in etcd for the others to notice. The rest of the node ends by itself; join waits for that.
// The node must have a connection to etcd of its own. Kill opens a new one for its successor.
func (f *Fleet) Kill(ctx context.Context, n *Node) (join func() error, err error) {
	if n.place >= OwnConns {
		return nil, fmt.Errorf("%s shares its connection to etcd with others: of a fleet the first %d can be killed",
			n.Address, OwnConns)
	}
	next, err := Connect(ctx, f.endpoint, 1)
	if err != nil {
		return nil, err
	}
	at := connection(n.place, len(f.clients))
	old := f.clients[at]
	f.clients[at] = next[0]
	Disconnect([]*clientv3.Client{old})
	_ = n.server.Close() // always returns nil
	over, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.abandoned(n.Cluster.Stop(over)) }() // joined by the caller
	return func() error { return <-ended }, nil
}

// abandoned returns nil if the stop that returned err has left n's keys in etcd.
func (n *Node) abandoned(err error) error {
	if cut, ok := errors.AsType[*cluster.CutShortError](err); ok && cut.Left != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%s has crashed, and left etcd all the same", n.Address), err)
}

// Revive binds the nodes of a crashed fleet to their addresses again and connects them, without starting any.
func (f *Fleet) Revive(ctx context.Context) (err error) {
	if f.clients, err = Connect(ctx, f.endpoint, Connections(len(f.Nodes))); err != nil {
		return err
	}
	for _, n := range f.Nodes {
		if err := f.bind(n); err != nil {
			return err
		}
	}
	return nil
}

// Orphans revokes the leases that belong to no node's session, and returns their number. They would expire by
// themselves: leases of crashed nodes, and leases that were granted so late that the node had requested
// another.
func (f *Fleet) Orphans(ctx context.Context, client *clientv3.Client) (n int, err error) {
	resp, err := client.Leases(ctx)
	if err != nil {
		return 0, err
	}
	living := map[clientv3.LeaseID]bool{}
	for _, n := range f.Nodes {
		living[n.Session().ID()] = true
	}
	for _, l := range resp.Leases {
		if living[l.ID] {
			continue
		}
		if _, err := client.Revoke(ctx, l.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
