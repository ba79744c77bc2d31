package leaderelection_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/race"
)

// places are the candidates in a queue of five that faults hit.
var places = map[string]int{"head": 0, "middle": 2, "tail": 4}

// eachPlace applies the fault to head, middle and tail of queues of five nodes, -faults.rounds times each,
// with sessions of ttl seconds. After each fault no node may be a phantom.
func eachPlace(t *testing.T, ttl int, fault func(t *testing.T, c *clustertest.Cluster, victim *clustertest.Node)) {
	t.Parallel()
	for place, i := range places {
		t.Run(place, func(t *testing.T) {
			pace.Parallel(t)
			c := clustertest.New(t, 5, clustertest.WithTTL(ttl))
			for range *rounds {
				var victim *clustertest.Node
				c.Eventually(func() bool {
					if q := queued(t, c); len(q) == 5 {
						victim = c.NodeAt(q[i])
					}
					return victim != nil && len(c.Node(0).Cluster().Status().Queue) == 5
				}, "all are queued")
				c.WaitAgreed()
				fault(t, c, victim)
				noPhantom(t, c)
			}
		})
	}
}

// lostSessions counts the sessions that the nodes have lost. A busy machine may cost nodes with a short TTL their
// sessions; what takes time is judged only where none was lost.
func lostSessions(c *clustertest.Cluster) (n int64) {
	for _, node := range c.Nodes() {
		n += node.Cluster().Status().SessionsLost
	}
	return n
}

// noPhantom makes each node renew once more. It then fails if a node claims to lead that is not first in etcd.
func noPhantom(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	since := time.Now()
	for _, n := range c.Nodes() {
		if s := inspect.Session(n.Cluster()); s != nil {
			s.RequestRenewal()
		}
	}
	c.Eventually(func() bool {
		for _, n := range c.Nodes() {
			if !n.Cluster().Session().Renewed().After(since) {
				return false
			}
		}
		return true
	}, "every node has renewed")
	for _, n := range c.Nodes() {
		before := queueKeys(t, c)
		if n.IsLeader() && before[0] != nodetest.Keys.Candidate(int64(n.Lease())) &&
			queueKeys(t, c)[0] == before[0] && n.IsLeader() {
			t.Fatalf("%s says that it leads, and etcd's first is %s\n%s", n.Address(), before[0], c.Describe())
		}
	}
}

// requeued waits until the node is queued behind all others, by a key other than the one created at that
// revision. It fails after five seconds. By then a node that notices at once has come back even on a busy
// machine, and one that notices only at a late renewal, or never, has not.
func requeued(t *testing.T, c *clustertest.Cluster, n *clustertest.Node) {
	t.Helper()
	c.Within(5*time.Second, func() bool {
		q := queueKeys(t, c)
		return len(q) == 5 && q[4] == nodetest.Keys.Candidate(int64(n.Lease()))
	}, "%s is queued again, at the tail", n.Address())
}

// Guards: the keeper, which opens a new session when one is lost (etcdsession.Keeper.Run), and
// membership.reconcile, which requests a renewal when its record is gone. Without that the node notices only at
// its next renewal, up to ten seconds later.
func TestLeaseRevokedFromOutside(t *testing.T) {
	eachPlace(t, 30, func(t *testing.T, c *clustertest.Cluster, victim *clustertest.Node) {
		c.RevokeLease(victim)
		requeued(t, c, victim)
	})
}

// Guards: candidacy, which bars a campaign when its key is gone, so that decide joins anew.
// concurrency.Election alone waits on, or wins without a key.
func TestOnlyTheCandidateKeyDeleted(t *testing.T) {
	eachPlace(t, 30, func(t *testing.T, c *clustertest.Cluster, victim *clustertest.Node) {
		lease := victim.Lease()
		c.DeleteCandidateKey(victim)
		requeued(t, c, victim)
		require.Equal(t, lease, victim.Lease(), "the session is as good as before")
	})
}

// Guards: the mirror and its lag timer. A node with a silent watch reads anew when its renewals show that etcd
// has advanced.
func TestOnlyTheWatchFrozen(t *testing.T) {
	const ttl = 4
	eachPlace(t, ttl, func(t *testing.T, c *clustertest.Cluster, victim *clustertest.Node) {
		victim.Faults().FreezeWatch()
		defer victim.Faults().ThawWatch()
		within, meter := ttl*time.Second, pace.StartMeter(t) // two thirds of it, plus the duration of the requests
		if race.Enabled {
			within *= 2
		}
		for range 2 {
			lost := lostSessions(c)
			var leader *clustertest.Node
			c.Eventually(func() bool {
				if q := queued(t, c); len(q) > 0 {
					leader = c.NodeAt(q[0])
				}
				return leader != nil && leader.IsLeader()
			}, "the first leads")
			if err := leader.Cluster().Resign(etcdtest.Context(t)); lostSessions(c) == lost {
				require.NoError(t, err)
			}
			noPhantom(t, c)
			meter.StartLap()
			resigned := time.Now()
			c.Eventually(func() bool {
				queue := queued(t, c)
				return len(queue) > 0 && victim.Cluster().GetLeaderNode() == queue[0]
			}, "%s, whose watch is frozen, names the new leader", victim.Address())
			if lostSessions(c) == lost {
				require.Less(t, time.Since(resigned), meter.Scale(within))
			}
		}
	})
}

// Guards: Session.ProtectKey of the candidate's key. The renewal's read does not find the key although the watch
// still shows it.
func TestWatchFrozenAndCandidateKeyDeleted(t *testing.T) {
	eachPlace(t, 4, func(t *testing.T, c *clustertest.Cluster, victim *clustertest.Node) {
		victim.Faults().FreezeWatch()
		led, lost := victim.IsLeader(), lostSessions(c)
		c.DeleteCandidateKey(victim)
		deleted := time.Now() // a renewal in flight may have read before
		c.Eventually(func() bool { return victim.Cluster().Session().Renewed().After(deleted) }, "the next renewal")
		// The deadline moves only after the read was checked.
		if led && lostSessions(c) == lost {
			require.False(t, victim.IsLeader(), "a leader that lost its key says so by its next renewal")
		}
		requeued(t, c, victim)
		victim.Faults().ThawWatch()
	})
}

// Guards: decide, which deletes a key that is not wanted (here: the node does not stand).
func TestLateKeyOfANodeThatWithdrewIsCleared(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3)
	c.WaitLeaderIs(c.Node(0).Address())
	for _, n := range []*clustertest.Node{c.Node(2), c.Node(0)} {
		require.NoError(t, inspect.Withdraw(etcdtest.Context(t), n.Cluster()))
		for range *rounds {
			c.PutLateCandidateKey(n)
			c.Within(5*time.Second, func() bool { return len(queueKeys(t, c)) == 2-boolInt(n == c.Node(0)) },
				"the late key of %s is cleared", n.Address())
			require.False(t, n.IsLeader())
		}
	}
	c.WaitLeaderIs(c.Node(1).Address())
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
