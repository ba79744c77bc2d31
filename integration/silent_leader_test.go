//go:build linux

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/hosts"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/test/history"
)

// silentFault silences a leader without ending it.
type silentFault struct {
	name         string
	inject, heal func(n *silentNode, t testing.TB)
	// byLease returns the longest time to the next leader if only the lease ends the term.
	byLease func(ttl time.Duration) time.Duration
	// withEtcd lets the fault affect the member that leads etcd, too.
	withEtcd bool
}

// etcdElection is the longest time that an election of etcd adds to the time to the next leader.
const etcdElection = time.Second

// byLeaseAlone is the time after which the lease has ended of a leader that cannot renew it.
func byLeaseAlone(ttl time.Duration) time.Duration { return ttl + time.Second }

func silentCut(d hosts.Direction, byLease func(ttl time.Duration) time.Duration) silentFault {
	return silentFault{"packets dropped " + string(d), func(n *silentNode, _ testing.TB) { n.host.Cut(d) },
		func(n *silentNode, _ testing.TB) { n.host.Heal() }, byLease, false}
}

var (
	silentStop = silentFault{"stopped", func(n *silentNode, t testing.TB) { n.Freeze(t) },
		func(n *silentNode, t testing.TB) { n.Thaw(t) }, byLeaseAlone, false}

	silentFaults = []silentFault{silentStop, silentCut(hosts.BothWays, byLeaseAlone),
		// A renewal on its way to etcd prolongs the lease though its answer is lost.
		silentCut(hosts.ToHost, func(ttl time.Duration) time.Duration { return 2*ttl + time.Second }),
		silentCut(hosts.FromHost, byLeaseAlone),
		{"host without power", func(n *silentNode, _ testing.TB) { n.host.CutPower() },
			func(n *silentNode, _ testing.TB) { n.host.Heal() }, byLeaseAlone, false},
		silentCut(hosts.BothWays, byLeaseAlone).andEtcd()}
)

// andEtcd returns the fault of a host that carries the member which leads etcd. Its next leader renews all leases.
func (f silentFault) andEtcd() silentFault {
	byLease := f.byLease
	f.name, f.withEtcd = f.name+", with etcd's leader", true
	f.byLease = func(ttl time.Duration) time.Duration { return byLease(ttl) + 3*etcdElection }
	return f
}

// A leader whose process is stopped, or whose host's packets are dropped in one direction or in both, is replaced. No
// two nodes claim to lead or to serve a shard at once, the next owners serve its shards, and its objects answer soon.
//
// The full run: -run TestSilentLeader -silent.rounds 100 -silent.ttl 10,30 -parallel 4 -timeout 5h
func TestSilentLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a TTL")
	}
	if !hosts.Inside() {
		t.Parallel()
		if why := hosts.Missing(t); why != "" {
			t.Log("only with a stopped process: ", why)
			silentLeaders(t, []silentFault{silentStop})
			return
		}
		hosts.Run(t)
		return
	}
	faults := silentFaults
	if *silentRounds < 2 { // beside all other tests
		faults = faults[:2]
	}
	silentLeaders(t, faults)
}

// silentLeaders runs all rounds of each fault with each TTL, in a cluster for each.
func silentLeaders(t *testing.T, faults []silentFault) {
	place := newSilentPlace(t)
	for _, text := range strings.Split(*silentTTLs, ",") {
		ttl, err := strconv.Atoi(text)
		require.NoError(t, err, "-silent.ttl")
		for i, f := range faults {
			t.Run(fmt.Sprintf("TTL %d, %s", ttl, f.name), func(t *testing.T) {
				t.Parallel()
				silenceLeaders(t, place, fmt.Sprintf("leader-%d-%d", ttl, i), ttl, f)
			})
		}
		t.Run(fmt.Sprintf("TTL %d, concurrency.Election", ttl), func(t *testing.T) {
			t.Parallel()
			stopRecipeLeaders(t, place, fmt.Sprintf("recipe-%d", ttl), ttl)
		})
	}
}

// judgedRounds is the number of rounds from which on the times are judged strictly.
const judgedRounds = 20

// silenceLeaders silences one leader after the other of a cluster.
func silenceLeaders(t *testing.T, place *silentPlace, name string, ttl int, f silentFault) {
	if f.withEtcd {
		place = place.withMembers(t)
	}
	c := startSilentCluster(t, place, name, 3, func(cfg *silentConfig) { cfg.TTL = ttl })
	ids := c.etcd.IDs(t)
	for range *silentRounds {
		if f.withEtcd {
			c.etcd.MoveLeaderTo(t, slices.Index(c.nodes, c.awaitRest()))
		}
		r := c.begin(f.name)
		f.inject(r.victim, t)
		if f.withEtcd {
			i := slices.Index(c.nodes, r.victim)
			c.etcd.AwaitOtherLeader(t, (i+1)%len(ids), ids[i])
			r.elected = history.Now()
		}
		c.awaitNext(r)
		f.heal(r.victim, t)
		place.resetMembers(t)
		c.end(r)
	}
	v, _, results := c.judge()
	next, answered := logResults(t, t.Name(), results)
	t.Log(v)
	require.True(t, v.OK())
	require.Len(t, results, *silentRounds)
	median, limit, answer := f.byLease(c.ttl()), f.byLease(c.ttl()), 300*time.Millisecond
	timeout := suspicion.SilenceTimeoutOrDefault(*silentTimeout, c.ttl())
	switch {
	case timeout > 0 && *silentRounds < judgedRounds: // beside other tests: sooner than by the lease, at least
		median, limit, answer = 2*timeout, 2*timeout, time.Second
	case timeout > 0:
		// A removal takes a seventh of the timeout less than the timeout, mostly.
		median, limit = timeout*6/7, timeout
		if f.withEtcd {
			median, limit = median+etcdElection, limit+etcdElection
		}
	}
	require.LessOrEqual(t, next[0], median, "the median of the times to the next leader")
	require.LessOrEqual(t, next[1], limit, "the times to the next leader, 99 of 100")
	require.LessOrEqual(t, answered[1], answer, "the objects of the silent leader, 99 of 100")
	for _, r := range results {
		require.Positive(t, r.shards, "the leader had no shards")
	}
}

// stopRecipeLeaders stops one leader after the other of two candidates of etcd's concurrency.Election, for comparison.
func stopRecipeLeaders(t *testing.T, place *silentPlace, name string, ttl int) {
	c := newSilentCluster(t, place, name, func(cfg *silentConfig) { cfg.TTL, cfg.Recipe = ttl, true })
	terms := func() (n int) {
		for _, one := range c.nodes {
			n += strings.Count(one.Output(), saidLeads)
		}
		return n
	}
	awaitTerm := func(want int) {
		procs.Await(t, c.limit(), "a candidate leads", func() error { return equal("terms", terms(), want) })
	}
	for i := range 2 {
		c.startNode(place, fmt.Sprint("candidate", i))
		awaitTerm(1) // the second one waits
	}
	var next []time.Duration
	for round := range *silentRounds {
		// The candidates lead in turns, because the stopped one waits behind the other.
		procs.SleepUntil(time.Now().Add(rand.N(min(c.ttl()/3, silentPhase))))
		r := c.beginAt(c.nodes[round%2], "stopped")
		r.victim.Freeze(t)
		awaitTerm(round + 2)
		r.victim.Thaw(t)
		r.heal()
		procs.Await(t, c.limit(), "the stopped one waits again", func() error {
			resp, err := c.etcd.Client(1).Get(requestContext(t), c.cfg.Prefix+"/", clientv3.WithPrefix(),
				clientv3.WithCountOnly())
			if err != nil {
				return err
			}
			return equal("candidates", resp.Count, 2)
		})
	}
	h := c.stop()
	for _, r := range c.rounds {
		one, led := c.result(r, c.over, h.Runs, nil)
		require.True(t, led)
		next = append(next, one.next)
	}
	text, _, _ := formatQuantiles(next)
	overlaps := history.Check(h, history.Limits{}).FindingsOf(history.Overlap)
	t.Logf("%s: next leader %s; two claimed to lead in %d of %d rounds", t.Name(), text, len(overlaps), len(c.rounds))
	for _, f := range overlaps {
		t.Logf("for %v: %s", f.Length(), f.Text)
	}
}
