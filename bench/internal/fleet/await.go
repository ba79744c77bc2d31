package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/state"
)

// looking is how often it is looked whether all agree. Where a failover is measured,
// that is not how; see [Agreement].
const looking = 10 * time.Millisecond

// Leader is the node that the first one names; nil when it names none of them.
func (f *Fleet) Leader() *Node {
	address := f.Nodes[0].GetLeaderNode()
	if i := slices.IndexFunc(f.Nodes, func(n *Node) bool { return n.Address == address }); i >= 0 {
		return f.Nodes[i]
	}
	return nil
}

// AwaitAgreement returns when every node names the same leader, and shows all of
// them and nobody else as members and as candidates.
func (f *Fleet) AwaitAgreement(ctx context.Context) error {
	return f.await(ctx, func(n *Node, s *state.Snapshot) bool {
		leader := n.GetLeaderNode()
		return s != nil && leader != "" && leader == f.Nodes[0].GetLeaderNode() &&
			len(s.Members) == len(f.Nodes) && len(s.Queue) == len(f.Nodes)
	})
}

// AwaitRevision returns when every node but one, which may be nil, has seen
// revision.
func (f *Fleet) AwaitRevision(ctx context.Context, revision int64, but *Node) error {
	return f.await(ctx, func(n *Node, s *state.Snapshot) bool { return n == but || s != nil && s.Revision >= revision })
}

func (f *Fleet) await(ctx context.Context, cond func(*Node, *state.Snapshot) bool) error {
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for seen := 0; seen < len(f.Nodes); {
		// From where the last look ended; who agreed is looked at again at the end.
		n := f.Nodes[seen]
		if cond(n, inspect.Snapshot(n.Cluster)) { // nil of one that has stopped
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
