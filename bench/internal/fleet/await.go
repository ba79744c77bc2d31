package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/state"
)

// looking is the interval between two checks whether all nodes agree. Failovers are measured without polling;
// see [Agreement].
const looking = 10 * time.Millisecond

// Leader returns the node that the first one names as leader, or nil if it names none of the fleet.
func (f *Fleet) Leader() *Node {
	address := f.Nodes[0].GetLeaderNode()
	if i := slices.IndexFunc(f.Nodes, func(n *Node) bool { return n.Address == address }); i >= 0 {
		return f.Nodes[i]
	}
	return nil
}

// AwaitAgreement returns when every node names the same leader, and shows exactly the nodes of the fleet as
// members and as candidates.
func (f *Fleet) AwaitAgreement(ctx context.Context) error {
	return f.await(ctx, func(n *Node, s *state.Snapshot) bool {
		leader := n.GetLeaderNode()
		return s != nil && leader != "" && leader == f.Nodes[0].GetLeaderNode() &&
			len(s.Members) == len(f.Nodes) && len(s.Queue) == len(f.Nodes)
	})
}

// AwaitRevision returns when every node except but, which may be nil, has seen the revision.
func (f *Fleet) AwaitRevision(ctx context.Context, revision int64, but *Node) error {
	return f.await(ctx, func(n *Node, s *state.Snapshot) bool { return n == but || s != nil && s.Revision >= revision })
}

func (f *Fleet) await(ctx context.Context, cond func(*Node, *state.Snapshot) bool) error {
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for seen := 0; seen < len(f.Nodes); {
		// Continue with the node that did not agree. After a pause, all nodes are checked again from the start.
		n := f.Nodes[seen]
		if cond(n, inspect.Snapshot(n.Cluster)) { // the snapshot of a stopped node is nil
			seen++
			continue
		}
		select {
		case <-tick.C:
			seen = 0
		case <-ctx.Done():
			return fmt.Errorf("wait until %d nodes agree: %s does not: %w", len(f.Nodes), f.Nodes[seen].Address, ctx.Err())
		}
	}
	return nil
}
