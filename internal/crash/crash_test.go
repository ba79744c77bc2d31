package crash_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

func TestKilledNodesAreRemovedLongBeforeTheirLeasesEnd(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 4, clustertest.WithTTL(nodetest.LongTTL),
		nodetest.WithCrashDetection(cluster.CrashDetection{GracePeriod: 300 * time.Millisecond}))
	nodetest.AwaitWatched(t, c, 4, 2)
	for i := range 3 {
		c.WaitLeaderIs(c.Node(i).Address())
		began := time.Now()
		c.Node(i).Kill()
		c.WaitLeaderIs(c.Node(i + 1).Address())
		t.Logf("%v after the kill the next one leads", time.Since(began).Round(time.Millisecond))
	}
	c.Eventually(func() bool { return len(c.Node(3).Cluster().Status().Nodes) == 1 }, "one is left")
	require.Zero(t, nodetest.CrashStats(c).Refutations)
}

// The neighbours of a dead node may be dead as well; then the nodes behind them watch it.
func TestManyKilledAtOnce(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 9, clustertest.WithTTL(nodetest.LongTTL),
		nodetest.WithCrashDetection(cluster.CrashDetection{}))
	nodetest.AwaitWatched(t, c, 9, 2)
	last := c.Node(8)
	for i := range 8 {
		c.Node(i).Kill()
	}
	c.WaitLeaderIs(last.Address())
	c.WaitQueue(last.Address())
	c.Eventually(func() bool { return len(last.Cluster().Status().Nodes) == 1 }, "it is alone")
}

func TestDetectionOff(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(2), nodetest.WithCrashDetection(cluster.CrashDetection{Off: true}))
	c.WaitLeaderIs(c.Node(0).Address())
	deadline := c.Node(0).Cluster().Session().Deadline()
	c.Node(0).Kill()
	c.WaitLeaderIs(c.Node(1).Address())
	require.True(t, time.Now().After(deadline), "the lease has run out")
	require.Zero(t, nodetest.CrashStats(c))
}

func TestStoppedNodesAreNotAccused(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 4, clustertest.WithTTL(nodetest.LongTTL), clustertest.WithPatience(time.Minute),
		nodetest.WithCrashDetection(cluster.CrashDetection{}))
	nodetest.AwaitWatched(t, c, 4, 2)
	for i := range 3 {
		c.Node(i).Stop()
		c.WaitLeaderIs(c.Node(i + 1).Address())
		// Sums over all nodes that still run, because each of them took part.
		st := nodetest.CrashStats(c)
		require.Zero(t, st.Accusations+st.Removals+st.Refuted+st.Refutations+st.WatchersLost, "%+v", st)
	}
}

// A living node that refuses connections but reaches etcd stays.
func TestRefusingNodeRefutesEveryAccusation(t *testing.T) {
	t.Parallel()
	const accusations = 100
	c := clustertest.New(t, 3, clustertest.WithTTL(nodetest.LongTTL), clustertest.WithPatience(time.Minute),
		nodetest.WithCrashDetection(cluster.CrashDetection{GracePeriod: 5 * time.Second, Rest: time.Millisecond}))
	nodetest.AwaitWatched(t, c, 3, 2)
	accused := c.Node(0)
	c.WaitLeaderIs(accused.Address())
	lease, token := accused.Lease(), accused.Cluster().Leader().Token
	require.NoError(t, accused.Cluster().Node().Close())
	s := nodetest.StartSampler(c)
	c.Eventually(func() bool {
		st := nodetest.CrashStats(c)
		return st.Refuted >= accusations && st.Refutations >= accusations
	}, "%d accusations are refuted", accusations)
	s.Stop(t)
	st := nodetest.CrashStats(c)
	t.Logf("%+v", st)
	require.Zero(t, st.Removals)
	require.Equal(t, lease, accused.Lease())
	require.Equal(t, token, accused.Cluster().Leader().Token, "it leads on")
	c.WaitLeaderIs(accused.Address())
}

// A lost watcher is a suspicion: etcd clears it, or the session is suspended until etcd does.
func TestLostWatcherMakesANodeAskEtcd(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(nodetest.LongTTL),
		nodetest.WithCrashDetection(cluster.CrashDetection{GracePeriod: 500 * time.Millisecond}))
	nodetest.AwaitWatched(t, c, 3, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	lease, deadline := c.Node(0).Lease(), c.Node(0).Cluster().Session().Deadline()
	token := c.Node(0).Cluster().Leader().Token
	c.Node(2).Kill()
	c.Eventually(func() bool {
		noticed := c.Node(0).Cluster().Status().Crashes.WatchersLost > 0
		s := c.Node(0).Cluster().Session()
		return noticed && s != nil && s.Deadline().After(deadline) // any renewal extends the deadline
	}, "the loss is noticed, and etcd has cleared the suspicion")
	require.Equal(t, lease, c.Node(0).Lease())
	require.True(t, c.Node(0).IsLeader())

	c.Node(0).Faults().CutOff()
	began := time.Now()
	c.Node(1).Kill()
	c.Eventually(func() bool { return !c.Node(0).IsLeader() },
		"cut off from etcd it stops leading after three grace periods")
	t.Logf("%v after its watcher was lost it does not lead any more", time.Since(began).Round(time.Millisecond))
	alone := c.Node(0).Cluster()
	c.Eventually(func() bool { return alone.Status().LastEnd != nil }, "its term ends")
	require.False(t, alone.Session().Valid())
	require.Equal(t, cluster.StateFollower, alone.Status().State)
	require.Equal(t, leaderelection.ReasonSessionLost, alone.Status().LastEnd.Reason)
	require.Equal(t, session.ReasonUnconfirmed, session.ReasonOf(alone.Status().LastEnd))

	c.Node(0).Faults().Reconnect()
	c.WaitLeaderIs(c.Node(0).Address())
	require.Equal(t, lease, c.Node(0).Lease(), "its session was suspended, not lost")
	require.Greater(t, alone.Leader().Token, token, "it queued anew")
	require.Zero(t, alone.Status().SessionsLost)
}

// Guards suspicion.RefuteAgain: one unanswered request does not end a member, because it is sent again while
// the first one hangs.
func TestLostRefutationsAreSentAgain(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(nodetest.LongTTL),
		nodetest.WithCrashDetection(cluster.CrashDetection{GracePeriod: 1500 * time.Millisecond,
			Rest: time.Minute}))
	nodetest.AwaitWatched(t, c, 3, 2)
	accused := c.Node(0)
	c.WaitLeaderIs(accused.Address())
	lease := accused.Lease()
	for range 3 {
		accused.Faults().HoldNext(clustertest.OpTxn, clustertest.Deleting(nodetest.Keys.Prefix()+"/nodes-accused/"))
	}
	require.NoError(t, accused.Cluster().Node().Close())
	c.Eventually(func() bool { return nodetest.CrashStats(c).Refuted >= 2 }, "both watchers are refuted")
	require.Zero(t, nodetest.CrashStats(c).Removals)
	require.Equal(t, lease, accused.Lease())
	require.True(t, accused.IsLeader())
}

// A node that says goodbye and dies before it has left is watched again.
func TestGoodbyeIsNotTheEnd(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(nodetest.LongTTL),
		nodetest.WithCrashDetection(cluster.CrashDetection{}))
	nodetest.AwaitWatched(t, c, 3, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	require.NoError(t, c.Node(0).Cluster().Node().Stop(etcdtest.Context(t))) // sends a goodbye to its watchers
	c.Eventually(func() bool { return nodetest.CrashStats(c).Watching == 4 }, "nobody watches it")
	c.Node(0).Kill()
	c.WaitLeaderIs(c.Node(1).Address())
	c.Eventually(func() bool { return nodetest.CrashStats(c).Removals == 1 }, "one of them has removed it")
}
