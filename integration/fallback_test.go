//go:build unix

package integration

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

// regained limits the time until nodes notice that the election works again. They try every third of the TTL,
// and in between etcd may refuse them once because of an old token.
const regained = 2 * ttl

func TestDeniedElectionFallsBackToTheSmallestAddress(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		admin := enableAccess(t, etcd)
		cfg := procs.NodeConfig{Etcd: etcd.Endpoint, TTL: ttl, User: nodeUser, Password: nodeUser}
		nodes, watch := startInOrder(t, cfg, 4)

		token := awaitAgreement(t, patience, nodes, nodes[0].Address, fallback, []string{}).Token
		require.Equal(t, map[string]string{procs.Prefix + "/leader-acting": nodes[0].Address},
			procs.Keys(t, admin, procs.Prefix+"/leader"), "a choice by name, but of one key")

		meter := pace.StartMeter(t)
		// A crash: the lease has to expire.
		killed := nodes[0].Kill(t)
		nodes = nodes[1:]
		_, _ = nodes[0].AwaitStatus(t, patience, "leads", leads)
		took := time.Since(killed)
		t.Logf("%v after SIGKILL the next smallest leads", took)
		require.LessOrEqual(t, took, ttl+meter.Scale(time.Second))
		token = grown(t, token, awaitAgreement(t, patience, nodes, nodes[0].Address, fallback, []string{}))

		// A graceful stop: no wait.
		signalled := nodes[0].Signal(t, syscall.SIGTERM)
		_, _ = nodes[1].AwaitStatus(t, patience, "leads", leads)
		took = time.Since(signalled)
		t.Logf("%v after SIGTERM the next smallest leads", took)
		require.Less(t, took, ttl/2, "no lease had to run out")
		require.Zero(t, nodes[0].Exit(t, patience))
		nodes = nodes[1:]
		token = grown(t, token, awaitAgreement(t, patience, nodes, nodes[0].Address, fallback, []string{}))

		// The right is granted: an elected node leads, the first one in the queue.
		meter.StartLap()
		granted := time.Now()
		allowElection(t, admin)
		token = grown(t, token, awaitElected(t, nodes))
		took = time.Since(granted)
		t.Logf("%v after the right was granted an elected node leads", took)
		require.LessOrEqual(t, took, meter.Scale(regained))
		require.NotContains(t, procs.Keys(t, admin, procs.Prefix+"/leader"), procs.Prefix+"/leader-acting")

		// The right is revoked. etcd 3.4 renews leases even if they hold keys that may not be written any more,
		// so there the present election continues.
		meter.StartLap()
		withdrawn := time.Now()
		denyElection(t, admin)
		if flavour == procs.Etcd34 {
			procs.SleepUntil(withdrawn.Add(2 * ttl))
			awaitAgreement(t, patience, nodes, leaderOf(t, nodes[0]), election, nil)
			return
		}
		// The smallest address among the present nodes leads; a smaller one that returns a moment later takes
		// over.
		grown(t, token, awaitAgreement(t, patience, nodes, nodes[0].Address, fallback, []string{}))
		took = time.Since(withdrawn)
		t.Logf("%v after the right was withdrawn the smallest address leads", took)
		require.LessOrEqual(t, took, meter.Scale(2*ttl))
		procs.Await(t, patience, "the samples show it, too", func() error {
			if len(watch.Leading(withdrawn, time.Now())) == 0 {
				return errors.New("no sample of a leader")
			}
			return nil
		})
	})
}

// startInOrder starts n nodes with ascending addresses, the greatest first, and samples them. It starts them
// one after the other, because etcd's password checks are expensive by design.
func startInOrder(t *testing.T, cfg procs.NodeConfig, n int) ([]*procs.Node, *procs.Watcher) {
	t.Helper()
	watch := procs.Watch(t)
	nodes := make([]*procs.Node, n)
	for i, address := range slices.Backward(kit.Addresses(t, n)) {
		cfg.Listen = address
		nodes[i] = kit.StartNode(t, cfg)
		watch.Add(nodes[i])
		nodes[i].AwaitStatus(t, patience, "is a member", func(st procs.Status) error {
			return equal("cluster_size", st.ClusterSize, n-i)
		})
	}
	return nodes, watch
}

func grown(t *testing.T, before int64, st procs.Status) int64 {
	t.Helper()
	require.Greater(t, st.Token, before, "the token grows")
	return st.Token
}

func leaderOf(t *testing.T, n *procs.Node) string {
	t.Helper()
	st, err := n.Status(requestContext(t))
	require.NoError(t, err)
	return st.LeaderID
}

// awaitElected waits until all nodes are ready and agree on the elected leader. The lead may change meanwhile.
func awaitElected(t *testing.T, nodes []*procs.Node) (first procs.Status) {
	t.Helper()
	procs.Await(t, patience, "all nodes agree on the elected leader", func() error {
		for i, n := range nodes {
			st, err := n.Status(requestContext(t))
			if err != nil {
				return err
			}
			if i == 0 {
				first = st
			}
			if err := errors.Join(checkAgrees(st, n, nodes, first.LeaderID, election, nil),
				equal("token", st.Token, first.Token)); err != nil {
				return err
			}
		}
		return nil
	})
	require.Positive(t, first.Token)
	return first
}
