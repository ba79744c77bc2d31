//go:build unix

package integration

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/integration/internal/procs"
)

// outsider is the name of a candidate that is not a Goverse node.
const outsider = "a plain program"

// outsideTTL is so long that no node loses its place in the queue, on a busy machine neither.
const outsideTTL = 6 * time.Second

func TestPlainElectionTakesPart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		nodes, watch := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: outsideTTL}, 2)

		session, err := concurrency.NewSession(etcd.Client(t, "", ""), concurrency.WithTTL(10))
		require.NoError(t, err)
		defer func() { require.NoError(t, session.Close()) }()
		plain := concurrency.NewElection(session, strings.TrimSuffix(queue, "/"))
		resp, err := plain.Leader(requestContext(t))
		require.NoError(t, err)
		require.Equal(t, nodes[0].Address, string(resp.Kvs[0].Value), "it observes our leader")
		// Only now, so that its own client has seen the queue before it joins.
		campaign := make(chan error, 1)
		campaigning, giveUp := context.WithCancel(context.Background())
		defer giveUp()
		go func() { campaign <- plain.Campaign(campaigning, outsider) }()
		queued := append(addresses(nodes), outsider)
		awaitAgreement(t, patience, nodes, nodes[0].Address, election, queued)

		// One more node joins behind it.
		last := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: outsideTTL})
		watch.Add(last)
		nodes = append(nodes, last)
		queued = append(queued, last.Address)
		awaitAgreement(t, patience, nodes, nodes[0].Address, election, queued)

		outsiderLeads(t, nodes, watch, func() { require.NoError(t, <-campaign) },
			func() { require.NoError(t, plain.Resign(requestContext(t))) })
		resp, err = plain.Leader(requestContext(t))
		require.NoError(t, err)
		require.Equal(t, last.Address, string(resp.Kvs[0].Value))
	})
}

func TestEtcdctlTakesPart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		nodes, watch := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: outsideTTL}, 2)
		listener := kit.StartEtcdctl(t, etcd, "elect", "--listen", strings.TrimSuffix(queue, "/"))
		listener.AwaitOutput(t, patience, nodes[0].Address)

		candidate := kit.StartEtcdctl(t, etcd, "elect", strings.TrimSuffix(queue, "/"), outsider)
		queued := append(addresses(nodes), outsider)
		awaitAgreement(t, patience, nodes, nodes[0].Address, election, queued)
		last := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: outsideTTL})
		watch.Add(last)
		nodes = append(nodes, last)
		awaitAgreement(t, patience, nodes, nodes[0].Address, election, append(queued, last.Address))

		outsiderLeads(t, nodes, watch, func() { candidate.AwaitOutput(t, patience, outsider) },
			func() { candidate.Signal(t, syscall.SIGTERM) })
		require.Zero(t, candidate.Exit(t, patience))
		listener.AwaitOutput(t, patience, outsider)
		listener.AwaitOutput(t, patience, last.Address)
	})
}

// outsiderLeads stops the nodes before the outsider, which is second to last in the queue. It waits with won
// until the outsider leads, checks the remaining node's view of that, and makes the outsider resign.
func outsiderLeads(t *testing.T, nodes []*procs.Node, watch *procs.Watcher, won, resign func()) {
	t.Helper()
	last := nodes[len(nodes)-1]
	for _, n := range nodes[:len(nodes)-1] {
		n.AwaitStatus(t, patience, "leads in its turn", leads)
		n.Signal(t, syscall.SIGTERM)
		require.Zero(t, n.Exit(t, patience))
	}
	won()
	leading := time.Now()
	last.AwaitStatus(t, patience, "shows the outsider, and no node that has left", func(st procs.Status) error {
		return errors.Join(equal("leader_id", st.LeaderID, outsider), equal("nodes", len(st.Nodes), 1))
	})
	// Long enough for a renewal and a retry of the node.
	for time.Since(leading) < outsideTTL/2 {
		st, err := last.Status(requestContext(t))
		require.NoError(t, err)
		require.False(t, st.IsLeader)
		require.Equal(t, "candidate", st.State)
		require.Equal(t, outsider, st.LeaderID)
		require.Equal(t, election, st.Mode)
		require.Equal(t, []string{outsider, last.Address}, st.Queue)
		require.Equal(t, []string{last.Address}, st.Nodes)
	}
	require.Empty(t, watch.Leading(leading, time.Now()), "nobody leads beside it")
	resign()
	awaitAgreement(t, patience, []*procs.Node{last}, last.Address, election, []string{last.Address})
}
