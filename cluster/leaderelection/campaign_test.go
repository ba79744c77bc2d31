package leaderelection_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
)

var errUnavailable = status.Error(codes.Unavailable, "etcd has no time")

// createRevision returns the CreateRevision of the node's candidate key in etcd, or 0 if there is none.
func createRevision(t *testing.T, c *clustertest.Cluster, n *clustertest.Node) int64 {
	t.Helper()
	resp, err := c.Client().Get(etcdtest.Context(t), nodetest.Keys.Candidate(int64(n.Lease())))
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].CreateRevision
}

// Guards: Candidacy.Decide, which queues anew when the key of a running campaign is gone.
// concurrency.Election.Campaign would wait for the others, and then win without a key.
func TestKeyLostWhileWaiting(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3)
	c.WaitQueue(addresses(c.Nodes())...)
	c.DeleteCandidateKey(c.Node(1))
	c.WaitQueue(c.Node(0).Address(), c.Node(2).Address(), c.Node(1).Address())
	c.Node(0).Stop()
	c.WaitLeaderIs(c.Node(2).Address())
	require.False(t, c.Node(1).IsLeader())
	c.Node(2).Stop()
	c.WaitLeaderIs(c.Node(1).Address())
}

// Guards: decide, which leads by the key in the snapshot and not by the result of Campaign. Here the campaign
// creates its key and then fails, which leaves the key.
func TestCampaignThatFailsLeavesNoGhost(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	n := c.NewNode()
	n.Faults().FailNext(clustertest.OpGet, errUnavailable, clustertest.Getting(nodetest.Keys.Queue()))
	require.NoError(t, n.Start(etcdtest.Context(t)))
	c.WaitQueue(c.Node(0).Address(), n.Address())
	third := c.AddNode()
	c.Node(0).Stop()
	c.WaitLeaderIs(n.Address())
	n.Stop()
	c.WaitLeaderIs(third.Address())
}

// Guards: the same, for a key that was created by a request that timed out. The node adopts the key: it neither
// waits in vain nor leaves it behind.
func TestCampaignWhoseAnswerIsLostQueuesOnce(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(brief))
	n := c.NewNode()
	n.Faults().LoseAnswer(clustertest.OpTxn, clustertest.Putting(nodetest.Keys.Queue()))
	require.NoError(t, n.Start(etcdtest.Context(t)))
	c.WaitQueue(c.Node(0).Address(), n.Address())
	c.Node(0).Stop()
	c.WaitLeaderIs(n.Address())
}

// Guards: deleteCandidateKey through ResumeElection, retried by decide until gone is confirmed. A second Resign of
// the campaign's own election would do nothing.
func TestResignIsRetriedUntilConfirmed(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(brief))
	leader := c.Node(0)
	c.WaitLeaderIs(leader.Address())
	before := createRevision(t, c, leader)
	key := nodetest.Keys.Candidate(int64(leader.Lease()))
	leader.Faults().FailNext(clustertest.OpTxn, errUnavailable, clustertest.Deleting(key))
	never := leader.Faults().HoldNext(clustertest.OpTxn, clustertest.Deleting(key)) // times out, and is never committed
	leader.Faults().FailNext(clustertest.OpTxn, errUnavailable, clustertest.Deleting(key))

	resigned := make(chan error, 1)
	go func() { resigned <- leader.Cluster().Resign(etcdtest.Context(t)) }()
	nodetest.AwaitCaught(t, never)
	require.Equal(t, before, createRevision(t, c, leader), "nothing has reached etcd so far")
	require.False(t, leader.IsLeader(), "the flag is lowered first")
	select {
	case err := <-resigned:
		t.Fatalf("Resign returned %v before etcd confirmed it", err)
	default:
	}
	require.NoError(t, <-resigned)
	require.NotEqual(t, before, createRevision(t, c, leader))
	c.WaitQueue(c.Node(1).Address(), leader.Address())
	c.WaitLeaderIs(c.Node(1).Address())
}

// Guards: the comparison of the CreateRevision in every delete (deleteCandidateKey), so that a delete that arrives
// after the node queued again finds another key; and barred, so that the old key is not adopted while its
// delete is in flight.
func TestLateDeleteLeavesTheNewCandidacyAlone(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(brief))
	leader := c.Node(0)
	c.WaitLeaderIs(leader.Address())
	key := nodetest.Keys.Candidate(int64(leader.Lease()))
	late := leader.Faults().HoldNext(clustertest.OpTxn, clustertest.Deleting(key))
	require.NoError(t, leader.Cluster().Resign(etcdtest.Context(t)))
	nodetest.AwaitCaught(t, late)
	c.WaitQueue(c.Node(1).Address(), leader.Address())
	requeued := createRevision(t, c, leader)
	require.NoError(t, late.Release(etcdtest.Context(t)))
	require.Equal(t, requeued, createRevision(t, c, leader), "the late delete meant the key before")
	c.Node(1).Stop()
	c.WaitLeaderIs(leader.Address())
}

// Guards: txn.RewriteCandidate, with its guard on the ModRevision, which repairs an altered key.
func TestAlteredCandidateKeyIsPutRight(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	meter := pace.StartMeter(t)
	for _, n := range c.Nodes() {
		before := createRevision(t, c, n)
		meter.StartLap()
		altered := time.Now()
		_, err := c.Client().Put(etcdtest.Context(t), nodetest.Keys.Candidate(int64(n.Lease())), "somebody:1")
		require.NoError(t, err) // another value, and no lease
		c.Eventually(func() bool {
			resp, err := c.Client().Get(etcdtest.Context(t), nodetest.Keys.Candidate(int64(n.Lease())))
			return err == nil && len(resp.Kvs) == 1 && string(resp.Kvs[0].Value) == n.Address() &&
				clientv3.LeaseID(resp.Kvs[0].Lease) == n.Lease() && resp.Kvs[0].CreateRevision == before
		}, "the key of %s is right again, at its place", n.Address())
		require.Less(t, time.Since(altered), meter.Scale(time.Second))
	}
}

// Guards: Keys.Parse, which treats every key below the queue as a candidate, as concurrency.Election does; and
// decide, which leads only from place 0.
func TestStrayKeyIsAnOutsideCandidate(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	remove := c.PutStrayKey(nodetest.Keys.Queue()+"x/y", "outside:1")
	c.AddNode()
	c.AddNode()
	c.WaitLeaderIs("outside:1")
	c.WaitQueue("outside:1", c.Node(0).Address(), c.Node(1).Address())
	for _, n := range c.Nodes() {
		require.False(t, n.IsLeader())
		require.Equal(t, leaderelection.ModeElection, n.Cluster().Status().Mode)
		require.False(t, inspect.Snapshot(n.Cluster()).Leader().Member)
	}
	remove()
	c.WaitLeaderIs(c.Node(0).Address())
}

// Guards: LeaderElection.Watch, which follows the snapshot. concurrency.Election.Observe would be silent
// without a leader, and would close when its watch breaks.
func TestObservationSaysNoLeaderAndStaysOpen(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(i int, cfg *cluster.Config) { cfg.Observer = i == 1 }))
	first, observer := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	seen, err := observer.Cluster().WatchLeader(ctx)
	require.NoError(t, err)
	next := func() leaderelection.Leader {
		select {
		case l, ok := <-seen:
			require.True(t, ok, "the observation closed")
			return l
		case <-time.After(5 * time.Second):
			t.Fatal("the observation says nothing")
			return leaderelection.Leader{}
		}
	}
	require.Equal(t, first.Address(), next().Address)
	first.Stop()
	require.Equal(t, leaderelection.Leader{}, next(), "no leader is said explicitly")
	second := c.AddNode()
	require.Equal(t, second.Address(), next().Address)
	// The loss of the session does not close the channel either. Without a session there is no leader for this
	// node; so short a moment may be skipped.
	lost := observer.Lease()
	c.RevokeLease(observer)
	c.Eventually(func() bool {
		return observer.Lease() != lost && observer.Cluster().GetLeaderNode() == second.Address()
	}, "the observer has another session and names the leader")
	second.Stop()
	third := c.AddNode()
	for l := next(); l.Address != third.Address(); l = next() {
		require.Contains(t, []string{"", second.Address()}, l.Address)
	}
	cancel()
	for range seen { //nolint:revive // it closes with its context
	}
}

// Guards: etcdsession.Open, which uses Start's context (through the keeper). concurrency.NewSession grants
// without a time-out.
func TestStartIsBoundedWhenTheGrantHangs(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	n := c.NewNode()
	hung := n.Faults().HoldNext(clustertest.OpGrant)
	for range 100 {
		n.Faults().HoldNext(clustertest.OpGrant)
	}
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- n.Start(ctx) }()
	nodetest.AwaitCaught(t, hung)
	meter := pace.StartMeter(t)
	began := time.Now()
	cancel()
	select {
	case err := <-started:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(5 * time.Second):
		n.Kill()
		<-started
		t.Fatal("Start hangs with the grant")
	}
	require.Less(t, time.Since(began), meter.Scale(time.Second))
}

// Guards: connect.Config.AwaitAnswer, which ends with Start's context.
func TestStartIsBoundedWhenEtcdIsSilent(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	n := c.NewNode()
	n.Faults().CutOff()
	ctx, cancel := context.WithTimeout(etcdtest.Context(t), 500*time.Millisecond)
	defer cancel()
	meter := pace.StartMeter(t)
	began := time.Now()
	require.ErrorIs(t, n.Start(ctx), cluster.ErrEtcdUnreachable)
	require.Less(t, time.Since(began), meter.Scale(1500*time.Millisecond))
}
