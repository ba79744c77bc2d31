//go:build linux

package integration

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/history"
)

var (
	silentStops = flag.String("silent.stops", "2.7s,5s", "for how long the leader is stopped before it continues; "+
		"2s,2.5s,2.7s,2.9s,3.1s,3.5s,5s,12s,35s in the full run")
	silentBeside = flag.Int("silent.beside", 1, "clusters beside each other, each with all rounds of all stops; 9 in the "+
		"full run")
)

// A leader is stopped and continues, after a time at which the others have not noticed, are about to act, have just
// acted, or have acted long ago. At no instant do two nodes claim to lead or to serve a shard. If another node led,
// etcd refuses the next write of the old term. The leader is a member again by itself.
//
// The full run, each stop 108 times: -run TestStoppedLeaderContinues -silent.rounds 12 -silent.beside 9 -parallel 9
// -timeout 5h -silent.stops 2s,2.5s,2.7s,2.9s,3.1s,3.5s,5s,12s,35s
func TestStoppedLeaderContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the leader is stopped")
	}
	t.Parallel()
	var stops []time.Duration
	for _, text := range strings.Split(*silentStops, ",") {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, "-silent.stops")
		stops = append(stops, d)
	}
	place := newSilentPlace(t)
	for i := range *silentBeside {
		t.Run(fmt.Sprint("cluster ", i), func(t *testing.T) {
			t.Parallel()
			c := startSilentCluster(t, place, fmt.Sprint("stops-", i), 3, func(*silentConfig) {})
			for range *silentRounds {
				for j := range stops { // the clusters are not all at the same stop
					c.stopLeader(stops[(i+j)%len(stops)])
				}
			}
			c.judgeStops(stops)
		})
	}
}

// stopLeader stops the leader for a time, and waits until the cluster is at rest.
func (c *silentCluster) stopLeader(d time.Duration) *silentRound {
	c.Helper()
	r := c.begin("stopped for " + d.String())
	procs.SleepUntil(r.victim.Freeze(c).Add(d))
	r.stop, r.thaws = d, history.Now()
	r.victim.Thaw(c)
	c.end(r)
	return r
}

// judgeStops judges the rounds of a cluster whose leaders were stopped and continued.
func (c *silentCluster) judgeStops(stops []time.Duration) {
	c.Helper()
	v, h, results := c.judge()
	replaced, refused := map[time.Duration]int{}, 0
	back := map[time.Duration][]time.Duration{}
	for _, r := range c.rounds {
		back[r.stop] = append(back[r.stop], r.back)
		if !r.replaced {
			continue
		}
		replaced[r.stop]++
		// The victim goes on with its old term until a write is refused, or was under way for so long that its outcome
		// is unknown.
		i := slices.IndexFunc(h.Ops, func(op history.Op) bool {
			return op.Write && op.Node == r.victim.Name && op.Token == r.token && op.Return > r.thaws &&
				(op.Outcome == history.OutcomeRefused || op.Outcome == history.OutcomeUnknown)
		})
		require.GreaterOrEqual(c, i, 0, "after %v, %s writes with the old token %d", r.stop, r.victim.Name, r.token)
		if h.Ops[i].Outcome == history.OutcomeRefused {
			refused++
		}
		for _, op := range h.Ops {
			if op.Write && op.Node == r.victim.Name && op.Token == r.token && op.Call > r.next {
				require.NotEqual(c, history.OutcomeAccepted, op.Outcome, "after %v: %v", r.stop, op)
			}
		}
	}
	for _, d := range stops {
		text, _, _ := formatQuantiles(back[d])
		c.Logf("stopped for %v: replaced in %d of %d rounds; at rest again after %s", d, replaced[d], len(back[d]), text)
	}
	logResults(c.T, c.Name(), results)
	c.Logf("%d writes with old tokens were refused; %v", refused, v)
	require.True(c, v.OK())
}

// The recordings show a node that claims for a second too long, and a write without a guard.
func TestSilentMutants(t *testing.T) {
	t.Parallel()
	place := newSilentPlace(t)
	for mutant, kind := range map[string]history.Kind{silentLies: history.Overlap, silentUnfenced: history.Stale} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			c := startSilentCluster(t, place, "mutant-"+mutant, 2, func(cfg *silentConfig) {
				cfg.TTL, cfg.Mutant, cfg.Silence = briefTTL(), mutant, -1
			})
			c.stopLeader(2 * c.ttl())
			v, _, results := c.judge()
			require.NotEmpty(t, v.FindingsOf(kind))
			t.Log(v.FindingsOf(kind)[0].Text)
			require.NotEmpty(t, results)
		})
	}
}
