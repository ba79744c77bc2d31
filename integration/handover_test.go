//go:build unix

package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

// handOver limits the time from the leader's SIGTERM until the next node reports that it leads.
const handOver = 100 * time.Millisecond

// Runs alone, because it measures a short time.
func TestSIGTERMHandsOverToTheNextInTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		etcd := kit.StartEtcd(t, flavour)
		nodes, watch := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL}, 3)
		token := awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token

		meter := pace.StartMeter(t)
		for len(nodes) > 1 {
			leader, next := nodes[0], nodes[1]
			meter.StartLap()
			signalled := leader.Signal(t, syscall.SIGTERM)
			st, _ := next.AwaitStatus(t, patience, "leads", leads)
			took := time.Since(signalled)
			t.Logf("%v after SIGTERM the next one leads", took)
			require.Less(t, took, meter.Scale(handOver))
			require.Greater(t, st.Token, token)
			token = st.Token

			require.Zero(t, leader.Exit(t, patience), "a graceful stop")
			nodes = nodes[1:]
			awaitAgreement(t, patience, nodes, next.Address, election, addresses(nodes))
		}

		// A node that joins later queues and takes no leadership away.
		late := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: longTTL})
		watch.Add(late)
		nodes = append(nodes, late)
		require.Equal(t, token, awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token)
	})
}

func TestFrozenLeaderIsReplacedAndRequeues(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: ttl}, 3)
		old, next, last := nodes[0], nodes[1], nodes[2]
		token := awaitAgreement(t, patience, nodes, old.Address, election, addresses(nodes)).Token

		meter := pace.StartMeter(t)
		frozen := old.Freeze(t)
		st, _ := next.AwaitStatus(t, patience, "leads", leads)
		took := time.Since(frozen)
		t.Logf("%v after SIGSTOP the next one leads", took)
		require.LessOrEqual(t, took, ttl+meter.Scale(time.Second))
		require.Greater(t, st.Token, token)
		procs.SleepUntil(frozen.Add(ttl + ttl/2)) // longer than the TTL

		// A request sent while it is frozen is answered as soon as it resumes.
		answered := make(chan procs.Status, 1)
		go func() {
			defer close(answered)
			if st, err := old.Status(requestContext(t)); err == nil {
				answered <- st
			}
		}()
		select {
		case st := <-answered:
			require.Fail(t, "a frozen process answered", "%+v", st)
		case <-time.After(50 * time.Millisecond):
		}
		pid := old.Pid()
		old.Thaw(t)
		first, ok := <-answered
		require.True(t, ok, "it answers")
		t.Logf("its first answer: %+v", first)
		require.False(t, first.IsLeader)
		require.NotEqual(t, "leader", first.State)
		require.NotEqual(t, old.Address, first.LeaderID)

		awaitAgreement(t, patience, nodes, next.Address, election, addresses([]*procs.Node{next, last, old}))
		require.True(t, old.Running())
		require.Equal(t, pid, old.Pid(), "without a restart")
	})
}
