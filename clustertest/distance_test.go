package clustertest

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/crashdetector"
	"github.com/goverse/goverse/internal/state"
)

var (
	farAccusations = flag.Int("far.accusations", 8, "how many accusations a living node refutes at each distance from "+
		"etcd; 100 is the full run")
	farKills = flag.Int("far.kills", 1, "how many nodes are killed at each distance from etcd; 20 is the full run")
)

// distances from etcd, one way.
var distances = []time.Duration{0, 20 * time.Millisecond, 80 * time.Millisecond, 200 * time.Millisecond}

// recorded is the round trip that the record of a node says, -1 while it has none.
func recorded(t *testing.T, c *Cluster, n *Node) time.Duration {
	t.Helper()
	resp, err := c.Client().Get(patient(t), c.Keys().Node(n.Address()))
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return -1
	}
	record, err := state.DecodeRecord(resp.Kvs[0].Value)
	require.NoError(t, err)
	return record.RoundTrip()
}

// A node that lives and reaches etcd, and whose advertised port refuses, stays, however far
// from etcd it is. Each accusation is one of its own: the port is open again in between, and
// the watchers rest until no refutation is under way that could answer the next one as well.
func TestLivingNodeFarFromEtcdStays(t *testing.T) {
	for _, d := range distances {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			// With a TTL for which it is not too far when the machine is busy.
			c := New(t, 3, WithTTL(30), WithPatience(time.Minute), first(d), WithEntrances(),
				detection(cluster.CrashDetection{Rest: 50*time.Millisecond + 4*d}))
			watched(t, c, 3, 2)
			accused := c.Node(0)
			c.WaitLeaderIs(accused.Address())
			lease := accused.Lease()
			began := time.Now()
			for crashes(c).Refuted < int64(*farAccusations) {
				before := crashes(c).Refuted
				accused.Refuse()
				c.Eventually(func() bool {
					st := crashes(c)
					return st.Removals > 0 || st.Refuted >= before+2
				}, "both watchers accuse it, and are refuted")
				require.Zero(t, crashes(c).Removals, "it lives; after %d refutations", before)
				accused.Accept()
				watched(t, c, 3, 2)
			}
			t.Logf("recorded %v; after %v %+v", recorded(t, c, accused), time.Since(began).Round(time.Millisecond), crashes(c))
			require.Zero(t, accused.cluster.Status().SessionsLost)
			require.Equal(t, lease, accused.Lease())
		})
	}
}

// nearDetection is ample for what it takes, beside the grace period, to remove a node whose
// watchers are near etcd (refusals, an accusation, another look, a removal), on a machine
// that is busy. It is far from the TTL.
const nearDetection = 2 * time.Second

// A node that is killed is removed on evidence, after five of its round trips as recorded, or
// after the least grace period. (That this is 12.5 times its distance at most, where etcd
// answers at once, is shown in package suspicion.)
func TestNodeKilledFarFromEtcdIsRemovedInTime(t *testing.T) {
	for _, d := range distances {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			c := New(t, 0, WithTTL(longTTL), WithDistance(func(i int) time.Duration {
				if i < 2 {
					return 0
				}
				return d
			}))
			c.AddNode()
			c.AddNode()
			for range *farKills {
				far := c.AddNode()
				watched(t, c, 3, 2)
				grace := max(crashdetector.DefaultGracePeriod, 5*recorded(t, c, far))
				began := time.Now()
				far.Kill()
				c.Within(grace+nearDetection, func() bool { return recorded(t, c, far) < 0 }, "a node %v from etcd is removed", d)
				t.Logf("removed after %v, of which %v are its grace period", time.Since(began).Round(time.Millisecond), grace)
				watched(t, c, 2, 1)
			}
		})
	}
}

// One that has gone away from etcd since it was registered says so.
func TestDistanceThatGrowsIsRecorded(t *testing.T) {
	t.Parallel()
	c := New(t, 3, WithTTL(5), WithPatience(time.Minute), first(0),
		detection(cluster.CrashDetection{Rest: time.Millisecond}))
	watched(t, c, 3, 2)
	accused := c.Node(0)
	c.WaitLeaderIs(accused.Address())
	accused.SetDistance(100 * time.Millisecond)
	c.Within(10*time.Second, func() bool { return recorded(t, c, accused) >= 200*time.Millisecond },
		"it is recorded within two TTLs")
	require.NoError(t, accused.node.Close())
	c.Eventually(func() bool { return crashes(c).Removals > 0 || crashes(c).Refuted >= 4 }, "accusations are refuted")
	require.Zero(t, crashes(c).Removals)
}

// One that is too far for its TTL is said so once, and left to its lease.
func TestNodeTooFarFromEtcdIsLeftToItsLease(t *testing.T) {
	const warning, refuses = "crash detection leaves it to its lease", "cannot watch a member"
	log := &lines{}
	c := New(t, 3, WithTTL(3), first(110*time.Millisecond), WithLogger(hclog.New(&hclog.LoggerOptions{Output: log})))
	watched(t, c, 3, 2)
	far := c.Node(0)
	c.WaitLeaderIs(far.Address())
	require.Equal(t, 1, log.count(warning), "at its start")
	require.NoError(t, far.node.Close())
	c.Eventually(func() bool { return log.count(refuses) >= 2 }, "both watchers have tried often")
	require.Zero(t, crashes(c).Accusations, "it is not accused")
	deadline := far.cluster.Session().Deadline()
	far.Kill()
	c.WaitLeaderIs(c.Node(1).Address())
	require.True(t, time.Now().After(deadline), "its lease has run out")
	require.Zero(t, crashes(c).Accusations)
	require.Equal(t, 1, log.count(warning), "once")
}

// One that becomes too far is told so then.
func TestNodeThatGoesTooFarIsWarned(t *testing.T) {
	t.Parallel()
	const warning = "crash detection leaves it to its lease"
	log := &lines{}
	c := New(t, 1, WithTTL(3), first(0), WithLogger(hclog.New(&hclog.LoggerOptions{Output: log})))
	require.Zero(t, log.count(warning))
	c.Node(0).SetDistance(110 * time.Millisecond)
	c.Eventually(func() bool { return log.count(warning) == 1 }, "it is warned")
	s := fmt.Sprint(log)
	require.Contains(t, s, "ttl_needed=4s", s)
}

// lines is a log that is kept.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }
