package history

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/wait"
)

// Node holds the functions by which a recorder asks a node. Name and Leads are required; with Shards, so is
// Serves. The functions are called often, from one goroutine of the recorder, and must not block.
type Node struct {
	// Name identifies the node in reports and marks: its address, or another short name.
	Name string
	// Leads reports whether the node claims to lead, and its token. Both must be true of the same instant
	// within the call. A node that claims to lead without a term returns token 0.
	Leads func() (leads bool, token int64)
	// Shards returns the number of shards, 0 while that is not known yet. Each shard is asked for every
	// millisecond, so the number should be some dozens. Without Shards the history contains nothing about
	// shards.
	Shards func() int
	// Serves reports whether the node claims to serve a shard, and the epoch. Both must be true of the same
	// instant within the call.
	Serves func(shard int) (epoch int64, ok bool)
	// Session returns the id of the session on which the node leads and serves shards, 0 between two sessions.
	// An owner with another session is another owner, and must have another epoch. Without Session, all
	// sessions of a node count as one.
	Session func() int64
	// State returns a coarse description of the node's activity. Without it silent stops are not found.
	State func() State
	// Subscribe returns a channel that signals changes of the answers and is never closed, and a function that
	// ends the subscription. It returns nils while that is not possible yet, and is called again. Without
	// Subscribe only the next sample sees a change.
	Subscribe func() (changed <-chan struct{}, cancel func())
}

// NodeOf returns a Node that asks a cluster's node about leadership. The cluster may be started later.
// [Node.WithShards] adds its shards.
func NodeOf(name string, c *cluster.Cluster) Node {
	return Node{
		Name:      name,
		Leads:     func() (bool, int64) { return leadsByTerm(c.IsLeader, c.Term) },
		State:     func() State { return stateOf(c) },
		Session:   func() int64 { return int64(c.Session().ID()) },
		Subscribe: subscriber(c.WatchLeader),
	}
}

// ElectionOf returns a Node that asks an election by itself about leadership. The election may be started later.
func ElectionOf(name string, e *leaderelection.LeaderElection) Node {
	return Node{
		Name:      name,
		Leads:     func() (bool, int64) { return leadsByTerm(e.IsLeader, e.Term) },
		Subscribe: subscriber(e.Watch),
	}
}

// subscriber returns the function Subscribe of a node whose leaders watch delivers.
func subscriber(watch func(context.Context) (<-chan leaderelection.Leader, error)) func() (<-chan struct{}, func()) {
	return func() (<-chan struct{}, func()) {
		ctx, cancel := context.WithCancel(context.Background())
		leaders, err := watch(ctx)
		if err != nil {
			cancel()
			return nil, nil
		}
		changed := wait.NewSignal()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range leaders {
				changed.Send()
			}
		})
		return changed, func() {
			cancel()
			wg.Wait()
		}
	}
}

// WithShards returns a copy of n that is also asked about the shards of the cluster's node. Configure few
// shards, with cluster.Sharding.Shards.
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

// leadsByTerm asks for the term before and after it asks whether the node leads. If both terms are the same, the
// answer was about that term. If a term begins or ends meanwhile, leadsByTerm asks again. If there is no term each
// time, the answer is wrong, and leadsByTerm returns it with token 0, so that it is reported.
func leadsByTerm(isLeader func() bool, term func() (leaderelection.Term, bool)) (bool, int64) {
	for range 10 {
		before, _ := term()
		yes := isLeader()
		after, leading := term()
		switch {
		case !yes:
			return false, 0
		case leading && before == after:
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

// TermOf returns a function that returns the present term of a cluster's node, for [Register.Work].
func TermOf(c *cluster.Cluster) func() FencedTerm {
	return func() FencedTerm {
		if t, leads := c.Term(); leads {
			return t
		}
		return nil
	}
}

var _ FencedTerm = leaderelection.Term(nil)
