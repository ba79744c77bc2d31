package crash_test

import (
	"flag"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/race"
)

var (
	farAccusations = flag.Int("far.accusations", 8, "how many accusations a living node refutes at each distance from "+
		"etcd; 100 is the full run")
	farKills = flag.Int("far.kills", 1, "how many nodes are killed at each distance from etcd; 20 is the full run")
)

// first places node 0 at distance d and leaves the others near etcd.
func first(d time.Duration) clustertest.Option {
	return clustertest.WithDistance(func(i int) time.Duration {
		if i == 0 {
			return d
		}
		return 0
	})
}

// distances lists one-way distances from etcd.
var distances = []time.Duration{0, 20 * time.Millisecond, 80 * time.Millisecond, 200 * time.Millisecond}

// shownLog returns a log that is shown if the test fails.
func shownLog(t *testing.T) *logtest.Buffer {
	log := &logtest.Buffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(fmt.Sprint(log))
		}
	})
	return log
}

// recorded returns the round trip in the record of a node, -1 while it has none.
func recorded(t *testing.T, c *clustertest.Cluster, n *clustertest.Node) time.Duration {
	t.Helper()
	resp, err := c.Client().Get(etcdtest.Context(t), nodetest.Keys.Node(n.Address()))
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return -1
	}
	record, err := state.DecodeRecord(resp.Kvs[0].Value)
	require.NoError(t, err)
	return record.RoundTrip()
}

// A living node that reaches etcd, but refuses connections at its advertised port, stays at any distance from
// etcd. Each accusation is a separate one: the port is open again in between, and the watchers rest until no
// refutation in progress could answer the next accusation as well.
func TestLivingNodeFarFromEtcdStays(t *testing.T) {
	t.Parallel()
	for _, d := range distances {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			// The TTL is long enough that the node is not too far when the machine is busy.
			c := clustertest.New(t, 3, clustertest.WithTTL(30), clustertest.WithPatience(time.Minute), first(d),
				clustertest.WithEntrances(), nodetest.WithCrashDetection(cluster.CrashDetection{Rest: 50*time.Millisecond + 4*d}))
			nodetest.AwaitWatched(t, c, 3, 2)
			accused := c.Node(0)
			c.WaitLeaderIs(accused.Address())
			lease := accused.Lease()
			began := time.Now()
			for nodetest.CrashStats(c).Refuted < int64(*farAccusations) {
				before := nodetest.CrashStats(c).Refuted
				accused.Refuse()
				c.Eventually(func() bool {
					st := nodetest.CrashStats(c)
					return st.Removals > 0 || st.Refuted >= before+2
				}, "both watchers accuse it, and are refuted")
				require.Zero(t, nodetest.CrashStats(c).Removals, "it lives; after %d refutations", before)
				accused.Accept()
				nodetest.AwaitWatched(t, c, 3, 2)
			}
			t.Logf("recorded %v; after %v %+v", recorded(t, c, accused), time.Since(began).Round(time.Millisecond),
				nodetest.CrashStats(c))
			require.Zero(t, accused.Cluster().Status().SessionsLost)
			require.Equal(t, lease, accused.Lease())
		})
	}
}

// nearDetection returns a generous limit for the steps, beside the grace period, of removing a node with
// watchers near etcd (refusals, an accusation, another look, a removal) on a busy machine. It is far below the
// TTL. The race detector makes the machine busier still.
func nearDetection() time.Duration {
	if race.Enabled {
		return 10 * time.Second
	}
	return 2 * time.Second
}

// A killed node is removed on evidence, after five of its recorded round trips or after the least grace period.
// (Package suspicion shows that this is at most 12.5 times its distance if etcd answers at once.)
func TestNodeKilledFarFromEtcdIsRemovedInTime(t *testing.T) {
	t.Parallel()
	for _, d := range distances {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			c := clustertest.New(t, 0, clustertest.WithTTL(nodetest.LongTTL), clustertest.WithLogger(shownLog(t).Logger()),
				nodetest.WithCrashDetection(cluster.CrashDetection{}),
				clustertest.WithDistance(func(i int) time.Duration {
					if i < 2 {
						return 0
					}
					return d
				}))
			c.AddNode()
			c.AddNode()
			for range *farKills {
				far := c.AddNode()
				nodetest.AwaitWatched(t, c, 3, 2)
				gracePeriod := max(suspicion.DefaultGracePeriod, 5*recorded(t, c, far))
				began := time.Now()
				far.Kill()
				c.Within(gracePeriod+nearDetection(), func() bool { return recorded(t, c, far) < 0 },
					"a node %v from etcd is removed", d)
				t.Logf("removed after %v, of which %v are its grace period", time.Since(began).Round(time.Millisecond),
					gracePeriod)
				nodetest.AwaitWatched(t, c, 2, 1)
			}
		})
	}
}

// A node that has moved away from etcd since it registered records that.
func TestDistanceThatGrowsIsRecorded(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, clustertest.WithTTL(5), clustertest.WithPatience(time.Minute), first(0),
		nodetest.WithCrashDetection(cluster.CrashDetection{Rest: time.Millisecond}))
	nodetest.AwaitWatched(t, c, 3, 2)
	accused := c.Node(0)
	c.WaitLeaderIs(accused.Address())
	accused.SetDistance(100 * time.Millisecond)
	c.Within(10*time.Second, func() bool { return recorded(t, c, accused) >= 200*time.Millisecond },
		"it is recorded within two TTLs")
	require.NoError(t, accused.Cluster().Node().Close())
	c.Eventually(func() bool { return nodetest.CrashStats(c).Removals > 0 || nodetest.CrashStats(c).Refuted >= 4 },
		"accusations are refuted")
	require.Zero(t, nodetest.CrashStats(c).Removals)
}

// A node that is too far for its TTL is reported once and left to its lease.
func TestNodeTooFarFromEtcdIsLeftToItsLease(t *testing.T) {
	t.Parallel()
	const warning, refuses = "crash detection leaves it to its lease", "cannot watch a member"
	log := shownLog(t)
	// The TTL is long, because a busy machine must not cost the leader its session before it is killed: a request may take
	// a fifth of it.
	c := clustertest.New(t, 3, clustertest.WithTTL(12), clustertest.WithPatience(time.Minute), first(420*time.Millisecond),
		clustertest.WithLogger(log.Logger()), nodetest.WithCrashDetection(cluster.CrashDetection{}))
	nodetest.AwaitWatched(t, c, 3, 2)
	far := c.Node(0)
	c.WaitLeaderIs(far.Address())
	require.Equal(t, 1, log.Count(warning), "at its start")
	require.NoError(t, far.Cluster().Node().Close())
	c.Eventually(func() bool { return log.Count(refuses) >= 2 }, "both watchers have tried often")
	require.Zero(t, nodetest.CrashStats(c).Accusations, "it is not accused")
	require.True(t, far.IsLeader(), "it has lost nothing so far")
	deadline := far.Cluster().Session().Deadline()
	far.Kill()
	c.WaitLeaderIs(c.Node(1).Address())
	require.True(t, time.Now().After(deadline), "its lease has run out")
	require.Zero(t, nodetest.CrashStats(c).Accusations)
	require.Equal(t, 1, log.Count(warning), "once")
}

// A node that becomes too far is warned at that time.
func TestNodeThatGoesTooFarIsWarned(t *testing.T) {
	t.Parallel()
	const warning = "crash detection leaves it to its lease"
	log := &logtest.Buffer{}
	c := clustertest.New(t, 1, clustertest.WithTTL(3), first(0),
		clustertest.WithLogger(log.Logger()))
	require.Zero(t, log.Count(warning))
	c.Node(0).SetDistance(110 * time.Millisecond)
	c.Eventually(func() bool { return log.Count(warning) == 1 }, "it is warned")
	// The measured round trip depends on how busy the machine is.
	said := regexp.MustCompile(warning + `.*round_trip=(\S+) ttl=3s ttl_needed=(\S+)`).FindStringSubmatch(fmt.Sprint(log))
	require.NotNil(t, said, fmt.Sprint(log))
	measured, err := time.ParseDuration(said[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, measured, 220*time.Millisecond)
	require.Equal(t, suspicion.LeastTTL(measured).String(), said[2])
}

// A node that is too far for its silence time-out, but not for its TTL, is warned with the one that it needs, and arms
// no watcher.
func TestNodeTooFarForItsSilenceTimeoutIsWarned(t *testing.T) {
	t.Parallel()
	const warning = "it has no silence time-out"
	log := &logtest.Buffer{}
	c := clustertest.New(t, 2, clustertest.WithTTL(30), clustertest.WithPatience(time.Minute), first(50*time.Millisecond),
		clustertest.WithLogger(log.Logger()),
		nodetest.WithCrashDetection(cluster.CrashDetection{SilenceTimeout: time.Second}))
	nodetest.AwaitWatched(t, c, 2, 1)
	require.Equal(t, 1, log.Count(warning), "at its start")
	said := regexp.MustCompile(warning + `.*round_trip=(\S+) silence_timeout=1s silence_timeout_needed=(\S+)`).
		FindStringSubmatch(fmt.Sprint(log))
	require.NotNil(t, said, fmt.Sprint(log))
	measured, err := time.ParseDuration(said[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, measured, 100*time.Millisecond)
	require.Equal(t, suspicion.LeastSilenceTimeoutAt(measured).String(), said[2])
	c.Eventually(func() bool { return c.Node(1).Cluster().Status().ArmedWatchers == 1 }, "the near one is watched")
	far := c.Node(0).Cluster().Status()
	require.Zero(t, far.ArmedWatchers)
	require.Equal(t, time.Second, far.SilenceTimeout)
}
