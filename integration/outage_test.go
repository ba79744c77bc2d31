//go:build unix

package integration

import (
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

// outage is by default more than two TTLs and a second: everything that nodes time has expired when etcd
// returns.
var outage = flag.Duration("integration.outage", 8*time.Second,
	"how long etcd is away, longer than twice the TTL of 2s")

func TestEtcdKilledAndRestarted(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, *outage, 2*ttl, "-integration.outage: the deadlines must pass while etcd is away")
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		nodes, watch := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: ttl}, 3)
		watch.AllowSilence(*outage)
		leader := nodes[0]
		token := awaitAgreement(t, patience, nodes, leader.Address, election, addresses(nodes)).Token

		killed := etcd.Kill(t)
		deadline := lastDeadline(t, leader)
		require.WithinRange(t, deadline, killed, killed.Add(ttl))
		for _, n := range nodes {
			n.AwaitStatus(t, patience, "knows of no leader", func(st procs.Status) error {
				return errors.Join(equal("leader_id", st.LeaderID, ""), equal("is_leader", st.IsLeader, false),
					equal("cluster_ready", st.ClusterReady, false))
			})
			require.ErrorIs(t, n.Ready(requestContext(t)), procs.ErrAnswer)
		}

		procs.SleepUntil(killed.Add(*outage))
		require.Empty(t, watch.Leading(deadline, time.Now()), "nobody leads past the deadline")
		meter := pace.StartMeter(t)
		returned := etcd.Restart(t)
		for _, n := range nodes {
			n.AwaitStatus(t, patience, "is back", func(st procs.Status) error {
				members := addresses(nodes)
				slices.Sort(members)
				queued := slices.Sorted(slices.Values(st.Queue))
				// The node's own state distinguishes a current candidacy from a key left from before the
				// outage.
				return errors.Join(equal("cluster_ready", st.ClusterReady, true), equal("nodes", st.Nodes, members),
					equal("the candidates", queued, members), equal("queued again", st.State != "follower", true))
			})
		}
		took := time.Since(returned)
		t.Logf("%v after etcd's return all are back", took)
		require.LessOrEqual(t, took, meter.Scale(recoveryTime))

		var candidates []string
		for _, address := range procs.Keys(t, etcd.Client(t, "", ""), queue) {
			candidates = append(candidates, address)
		}
		require.ElementsMatch(t, addresses(nodes), candidates, "exactly one key a candidate")
		var first procs.Status
		procs.Await(t, patience, "one of them leads", func() error {
			for _, n := range nodes {
				if st, err := n.Status(requestContext(t)); err == nil && st.IsLeader {
					first = st
					return nil
				}
			}
			return errNotYet
		})
		require.Greater(t, awaitAgreement(t, patience, nodes, first.NodeID, election, first.Queue).Token, token)
		for _, n := range nodes {
			require.True(t, n.Running())
		}
	})
}

// lastDeadline returns the latest deadline that a leader without etcd reported before it ceased to lead.
func lastDeadline(t *testing.T, leader *procs.Node) time.Time {
	t.Helper()
	var deadline time.Time
	procs.Await(t, patience, "the leader's deadline passes", func() error {
		l, err := leader.Leader(requestContext(t))
		switch {
		case errors.Is(err, procs.ErrAnswer):
			return nil
		case err != nil:
			return err
		}
		require.False(t, l.Estimated, "a leader knows its own deadline")
		if l.ExpiresAt.After(deadline) {
			deadline = l.ExpiresAt
		}
		return errNotYet
	})
	return deadline
}
