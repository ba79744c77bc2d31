package history

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/election"
)

// Node is how a recorder asks a node. Name and Leads are required, and Serves if there
// is Shards. The functions are called from one goroutine of the recorder's, often, and
// must not block.
type Node struct {
	// Name is the node's in reports and marks: its address, or anything as short.
	Name string
	// Leads reports whether the node says, at an instant within the call, that it
	// leads, and by which token: both must be about the same instant. If it claims to
	// lead without a term, the token is 0.
	Leads func() (leads bool, token int64)
	// Shards is how many shards there are, 0 while that is not known yet. Each is asked
	// for every millisecond, so it should be some dozens. Without it nothing is known of
	// shards.
	Shards func() int
	// Serves reports whether the node says, at an instant within the call, that it serves
	// a shard, and under which epoch: both must be about the same instant.
	Serves func(shard int) (epoch int64, ok bool)
	// Session names the session that it leads and serves shards on, 0 between two. An owner
	// with another session is another owner: the epoch must be another one too. Without it all
	// sessions of a node are taken for one.
	Session func() int64
	// State is coarsely what the node does; without it silent stops are not found.
	State func() State
	// Subscribe returns a channel that signals changes of the answers and is never
	// closed, and a function that ends the subscription. While that is not possible
	// yet it returns nils, and is called again. Without it a change is seen by the
	// next sample only.
	Subscribe func() (changed <-chan struct{}, cancel func())
}

// Of asks a cluster's node, which may be started later, about leadership; see
// [Node.WithShards].
func Of(name string, c *cluster.Cluster) Node {
	return Node{
		Name:    name,
		Leads:   func() (bool, int64) { return leads(c.IsLeader, c.Term) },
		State:   func() State { return stateOf(c) },
		Session: func() int64 { return int64(c.Session().ID()) },
		Subscribe: func() (<-chan struct{}, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			leaders, err := c.WatchLeader(ctx)
			if err != nil {
				cancel()
				return nil, nil
			}
			changed := make(chan struct{}, 1)
			var wg sync.WaitGroup
			wg.Go(func() {
				for range leaders {
					select {
					case changed <- struct{}{}:
					default:
					}
				}
			})
			return changed, func() {
				cancel()
				wg.Wait()
			}
		},
	}
}

// WithShards is n, asked about the shards of that cluster's node as well. Give the cluster
// few of them, by Sharding.Shards.
func (n Node) WithShards(c *cluster.Cluster) Node {
	n.Shards = func() int {
		if !c.Status().State.Running() {
			return 0
		}
		return c.Shards().Count()
	}
	n.Serves = c.Shards().Serves
	return n
}

// leads asks whether the node leads between two looks at its term. A term that was the
// same before and after is the one that was answered for. If one begins or ends
// meanwhile it asks again; but if there is none again and again, the answer is wrong,
// and that must not be hidden.
func leads(isLeader func() bool, term func() election.Term) (bool, int64) {
	for range 10 {
		before, yes, after := term(), isLeader(), term()
		switch {
		case !yes:
			return false, 0
		case before == after && after != nil:
			return true, after.Token()
		}
	}
	return true, 0
}

func stateOf(c *cluster.Cluster) State {
	st := c.Status()
	switch {
	case !st.State.Running():
		return Stopped
	case st.State == cluster.StateLeader:
		return Leader
	case st.State == cluster.StateCandidate:
		return Candidate
	case !st.SessionValid:
		return NoSession
	case st.ElectionFailed != "":
		return Failed
	}
	for _, m := range c.Members() {
		if m.Address == st.NodeID && m.Observer {
			return Observer
		}
	}
	return Follower
}

// TermOf is the term that a cluster's node leads by now, for [Register.Work].
func TermOf(c *cluster.Cluster) func() Fenced {
	return func() Fenced {
		if t := c.Term(); t != nil {
			return t
		}
		return nil // not a nil Term in another interface
	}
}

var _ Fenced = election.Term(nil)
