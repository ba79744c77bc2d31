package fleet

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
)

// Crash makes all nodes vanish at once as a power cut does: their connections end,
// and what they have at etcd stays.
func (f *Fleet) Crash() error {
	Disconnect(f.clients)
	f.clients = nil
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return f.each(func(n *Node) error { return n.abandoned(n.Cluster.Stop(over)) })
}

// Kill makes n vanish as the death of its process does: all its connections end without
// a goodbye, and what it has at etcd stays, for the others to notice. What is left of it
// here ends by itself; join waits for that. It needs a connection to etcd of its own; there
// is a new one afterwards for who takes its place.
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
	_ = n.server.Close() // always nil
	over, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.abandoned(n.Cluster.Stop(over)) }() // joined by the caller
	return func() error { return <-ended }, nil
}

// abandoned is nil if the stop that returned err has left n's keys to etcd.
func (n *Node) abandoned(err error) error {
	if cut, ok := errors.AsType[*cluster.CutShortError](err); ok && cut.Left != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%s has crashed, and left etcd all the same", n.Address), err)
}

// Revive binds the nodes of a fleet that crashed to their addresses anew and
// connects them; none is started.
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

// Orphans revokes the leases on which no node's session stands, and returns how many
// these were. They would run out by themselves: those of nodes that crashed, and those
// whose grant was answered too late, so that the node asked for another.
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
