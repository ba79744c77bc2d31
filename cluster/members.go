package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/consensusmanager"
)

// Member is a registered node, as described by its record in etcd.
type Member = consensusmanager.Member

// Members returns the registered nodes as far as this node knows, by address. The caller owns the slice. It is
// nil before Start has returned and after Stop. Members does not block.
func (c *Cluster) Members() []Member { return c.consensus.Members() }

// Member returns the registered node at that address, as far as this node knows. It returns false if there is
// none, before Start has returned and after Stop. It does not block.
func (c *Cluster) Member(address string) (Member, bool) { return c.consensus.Member(address) }

// WatchMembers returns a channel that delivers the members, by address, then again after every change: when a
// member joins, leaves or is lost, or its record changes. A slow receiver skips intermediate values and always
// gets the newest. The channel closes when ctx ends or the node stops, and never otherwise. Errors are
// ErrNotStarted and ErrStopped.
func (c *Cluster) WatchMembers(ctx context.Context) (<-chan []Member, error) {
	return c.consensus.WatchMembers(ctx)
}
