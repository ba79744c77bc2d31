//go:build linux

package integration

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/history"
)

var (
	alarmsFor = flag.Duration("silent.alarms", 3*time.Second,
		"for how long TestNoFalseAlarms loads the machine; 1h in the full run")
	alarmsNodes = flag.Int("silent.nodes", 3, "its nodes; 3 and 12 in the full runs")
	alarmsLoad  = flag.Int("silent.load", 2, "its threads that compute; 20 in the full run")
	alarmsMoves = flag.Int("silent.moves", 2, "how often etcd's leader moves, and is killed; 100 in the full run")
)

// phase is a part of TestNoFalseAlarms.
type phase struct {
	name     string
	from, to history.Instant
	strict   bool // no living member may be removed, and no leadership lost
}

// Nodes that collect a lot of garbage on a busy machine are not removed while they live, and neither short stops of the
// leader nor elections of etcd end its term.
//
// The full run: -run TestNoFalseAlarms -silent.alarms 1h -silent.load 20 -silent.nodes 12 -silent.moves 100
// -silent.rounds 100 -timeout 4h, with -silent.nodes 3 as well
func TestNoFalseAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	t.Parallel()
	c := startSilentCluster(t, newSilentPlace(t), "alarms", *alarmsNodes, func(cfg *silentConfig) {
		cfg.Garbage, cfg.Idle = true, true
	})
	var phases []phase
	during := func(name string, strict bool, do func()) {
		p := phase{name: name, from: history.Now(), strict: strict}
		do()
		c.awaitRest() // removals may follow
		p.to = history.Now()
		phases = append(phases, p)
	}
	during("load", true, func() { c.logDelays(*alarmsFor, *alarmsLoad) })
	for _, d := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		longest := time.Duration(0)
		during("stops of "+d.String(), true, func() {
			for range *silentRounds {
				r := c.stopLeader(d)
				longest = max(longest, r.healed.Sub(r.at)) // a busy machine continues it later
			}
		})
		phases[len(phases)-1].strict = longest < 2*time.Second
	}
	during("moves of etcd's leader", true, func() {
		for i := range *alarmsMoves {
			c.etcd.MoveLeaderTo(c, i%3)
		}
	})
	during("deaths of etcd's leader", true, func() {
		for range *alarmsMoves {
			c.etcd.Restart(c, c.etcdLeader())
			procs.SleepUntil(time.Now().Add(c.ttl() / 3)) // each node renews its session between two elections
		}
	})
	during("deaths of etcd's leader without a pause", false, func() {
		for range *alarmsMoves {
			c.etcd.Restart(c, c.etcdLeader())
		}
	})
	c.logMetrics()
	v, h, _ := c.judge()
	for _, p := range phases {
		removed, lost := c.removedSince(c.keys.Nodes(), p.from), lostTerms(h.Runs, p.from, p.to)
		removed = slices.DeleteFunc(removed, func(k removedKey) bool { return k.at > p.to })
		t.Logf("%s, %v: %d living members removed, %d leaderships lost", p.name, brief(p.to.Sub(p.from)), len(removed),
			lost)
		if p.strict {
			require.Empty(t, removed, p.name)
			require.Zero(t, lost, p.name)
		}
	}
	t.Log(v)
	require.True(t, v.OK())
}

// logDelays loads the machine for some time, and logs the scheduling delays of a thread meanwhile.
func (c *silentCluster) logDelays(d time.Duration, threads int) {
	c.Helper()
	if threads > 0 {
		path, err := os.Executable()
		require.NoError(c, err)
		p := kit.Start(c, "load", path, nil, []string{silentEnv + "=" + silentConfig{Load: threads}.encode(c)})
		defer p.Kill(c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var late []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() { late = schedulingDelays(ctx) })
	wg.Wait()
	slices.Sort(late)
	average, err := os.ReadFile("/proc/loadavg")
	require.NoError(c, err)
	c.Logf("load %s: scheduling delay of %d sleeps: p50 %v, p99 %v, p99.9 %v, max %v", strings.TrimSpace(string(average)),
		len(late), late[len(late)/2], late[len(late)*99/100], late[len(late)*999/1000], late[len(late)-1])
}

// etcdLeader returns the number of the member that leads etcd.
func (c *silentCluster) etcdLeader() (leader int) {
	c.Helper()
	procs.Await(c, c.limit(), "a member leads etcd", func() error {
		for i := range c.etcd.Endpoints {
			if st, err := c.etcd.Status(context.Background(), i); err == nil && st.Leader == st.Header.MemberId {
				leader = i
				return nil
			}
		}
		return errNotYet
	})
	return leader
}

// logMetrics logs what crash detection has done at all nodes, and the types of the events.
func (c *silentCluster) logMetrics() {
	c.Helper()
	for _, name := range []string{"goverse_crash_accusations_total", "goverse_crash_removals_total",
		"goverse_crash_refutations_total"} {
		sum := 0.0
		for _, n := range c.nodes {
			value, err := n.Metric(requestContext(c.T), name)
			require.NoError(c, err)
			sum += value
		}
		c.Logf("%s of all nodes: %v", name, sum)
	}
	all, err := eventsOf(c.nodes[0].Node)
	require.NoError(c, err)
	types := map[event.Type]int{}
	for _, e := range all {
		types[e.Type]++
	}
	c.Logf("the newest %d events: %v", len(all), types)
}

// lostTerms returns the number of terms that began between two instants, each after the end of another one.
func lostTerms(runs []history.Run, from, to history.Instant) int {
	tokens := map[int64]bool{}
	before := int64(0)
	for _, r := range runs {
		if r.Subject == history.Leadership && r.Leads && r.First.Before < from {
			before = max(before, r.Token)
		}
	}
	for _, r := range runs {
		if r.Subject == history.Leadership && r.Leads && r.First.Before >= from && r.First.Before < to && r.Token > before {
			tokens[r.Token] = true
		}
	}
	return len(tokens)
}
