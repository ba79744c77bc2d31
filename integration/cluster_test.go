//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

const (
	// ttl is the TTL of the nodes' sessions unless a scenario has another one.
	ttl = 2 * time.Second
	// patience limits waits without a limit of their own; only a failure takes so long.
	patience = 15 * time.Second
	// recoveryTime is the time within which nodes recover after etcd's return.
	recoveryTime = 3 * time.Second
	election     = "election"
	fallback     = "fallback"
)

// queue is the prefix of the candidates' keys.
const queue = procs.Prefix + "/leader/"

var (
	errNotYet   = errors.New("not yet")
	errMismatch = errors.New("is otherwise")
)

// startNodes starts n nodes that queue in the returned order, with the first one leading, and samples them.
// None of them may report fallback until the test ends.
func startNodes(t *testing.T, cfg procs.NodeConfig, n int) ([]*procs.Node, *procs.Watcher) {
	t.Helper()
	var watch *procs.Watcher
	t.Cleanup(func() { // after the sampling has ended
		for _, s := range watch.Samples() {
			if s.Status.Mode != election {
				t.Errorf("%s reports mode %s though the election works", s.Node, s.Status.Mode)
				return
			}
		}
	})
	watch = procs.Watch(t)
	var nodes []*procs.Node
	for range n {
		node := kit.StartNode(t, cfg)
		watch.Add(node)
		nodes = append(nodes, node)
		node.AwaitStatus(t, patience, "queued", func(st procs.Status) error {
			return equal("the queue", st.Queue, addresses(nodes))
		})
	}
	return nodes, watch
}

func addresses(nodes []*procs.Node) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, n.Address)
	}
	return out
}

// awaitAgreement waits until every node reports the same leader, mode and members, and only the leader reports that it
// leads. It also compares the queue if one is given.
func awaitAgreement(t *testing.T, within time.Duration, nodes []*procs.Node, leader, mode string,
	queue []string) procs.Status {
	t.Helper()
	var first procs.Status
	for i, n := range nodes {
		st, _ := n.AwaitStatus(t, within, "agrees that "+leader+" leads", func(st procs.Status) error {
			return checkAgrees(st, n, nodes, leader, mode, queue)
		})
		require.Positive(t, st.Token)
		require.Equal(t, st.Token, st.Term)
		if i == 0 {
			first = st
		}
		require.Equal(t, first.Token, st.Token, "the same token everywhere")
	}
	return first
}

// checkAgrees returns an error unless the status of n has the leader, the mode, the nodes as members, and the queue if
// one is given.
func checkAgrees(st procs.Status, n *procs.Node, nodes []*procs.Node, leader, mode string, queue []string) error {
	members := addresses(nodes)
	slices.Sort(members)
	return errors.Join(
		equal("leader_id", st.LeaderID, leader),
		equal("is_leader", st.IsLeader, n.Address == leader),
		equal("node_id", st.NodeID, n.Address),
		equal("mode", st.Mode, mode),
		equal("nodes", st.Nodes, members),
		equal("cluster_size", st.ClusterSize, len(nodes)),
		equal("cluster_ready", st.ClusterReady, true),
		equal("state", st.State, stateOf(n.Address, leader, mode)),
		unless(queue == nil, func() error { return equal("queue", st.Queue, queue) }))
}

func stateOf(node, leader, mode string) string {
	switch {
	case node == leader:
		return "leader"
	case mode == fallback:
		return "follower"
	}
	return "candidate"
}

func unless(not bool, check func() error) error {
	if not {
		return nil
	}
	return check()
}

func equal[T any](what string, got, want T) error {
	if fmt.Sprint(got) == fmt.Sprint(want) {
		return nil
	}
	return fmt.Errorf("%s %w: %v, want %v", what, errMismatch, got, want)
}

// requestContext returns a context for one request.
func requestContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// leads is a check for AwaitStatus that accepts a leader.
func leads(st procs.Status) error {
	if st.IsLeader {
		return nil
	}
	return errNotYet
}
