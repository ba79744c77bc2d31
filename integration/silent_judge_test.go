//go:build linux

package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/history"
)

// silentResult is what a round has shown. All times but next and queue count from the next leader's first claim, and
// are 0 if something was earlier.
type silentResult struct {
	next     time.Duration // from the fault until another node claimed to lead
	elected  time.Duration // from the fault until etcd had another leader, if it lost its own
	queue    time.Duration // from the fault until the leader's key was seen to be gone in etcd
	distance time.Duration // from the victim's last claim
	served   time.Duration // until others claimed all shards of the victim
	answered time.Duration // until all other nodes' calls to all shards of the victim were answered
	shards   int           // of the victim
	slowdown float64
}

// judge ends the cluster, and returns the verdict on its history, and the result of each round in which another node
// led.
func (c *silentCluster) judge() (v history.Verdict, h history.History, results []silentResult) {
	c.Helper()
	h = c.stop()
	v = history.Check(h, history.Limits{Silent: c.limit(), Unserved: c.limit()})
	calls := c.readCalls()
	for i, r := range c.rounds {
		until := c.over
		if i+1 < len(c.rounds) {
			until = c.rounds[i+1].at
		}
		var one silentResult
		if one, r.replaced = c.result(r, until, h.Runs, calls); r.replaced {
			r.next = r.at.Add(one.next)
			results = append(results, one)
		}
	}
	return v, h, results
}

// result returns the result of a round, and whether another node led before until.
func (c *silentCluster) result(r *silentRound, until history.Instant, runs []history.Run,
	calls []answerChange) (one silentResult, led bool) {
	first := func(s history.Subject) (at history.Instant, ok bool) {
		for _, run := range runs {
			if run.Subject == s && run.Leads && run.Node != r.victim.Name && run.First.After > r.at && run.First.After < until &&
				(!ok || run.First.After < at) {
				at, ok = run.First.After, true
			}
		}
		return at, ok
	}
	next, led := first(history.Leadership)
	if !led {
		return one, false
	}
	one = silentResult{next: next.Sub(r.at), elected: max(0, r.elected.Sub(r.at)), slowdown: r.slowdown}
	last := r.at
	owned := map[int]bool{}
	for _, run := range runs {
		if run.Node != r.victim.Name || !run.Leads || run.First.Before > next {
			continue
		}
		if run.Subject == history.Leadership && run.Token == r.token {
			last = max(last, run.Last.Before)
		}
		for shard := range silentShards {
			// An unchanged claim is written every 20 ms, on a busy machine later.
			if run.Subject == history.Shard(shard) && run.First.After < r.at && r.at.Sub(run.Last.After) < time.Second &&
				!slices.ContainsFunc(runs, func(other history.Run) bool {
					return other.Subject == run.Subject && other.Leads && other.Node != r.victim.Name &&
						other.First.After > run.Last.After && other.First.After < r.at
				}) {
				owned[shard] = true
			}
		}
	}
	one.distance, one.shards = next.Sub(last), len(owned)
	for _, k := range c.removedSince(c.keys.Queue(), r.at) {
		if k.value == r.victim.Advertise && one.queue == 0 {
			one.queue = k.at.Sub(r.at)
		}
	}
	for shard := range owned {
		at, ok := first(history.Shard(shard))
		require.True(c, ok, "shard %d is served again", shard)
		one.served = max(one.served, at.Sub(next))
		for _, n := range c.nodes {
			if n == r.victim {
				continue
			}
			i := slices.IndexFunc(calls, func(a answerChange) bool {
				return a.Caller == n.Name && a.Shard == shard && a.At > r.at && a.Node != r.victim.Advertise
			})
			require.GreaterOrEqual(c, i, 0, "calls of %s to shard %d are answered again", n.Name, shard)
			one.answered = max(one.answered, calls[i].At.Sub(next))
		}
	}
	return one, true
}

// readCalls returns the recorded answers of all nodes, in the order of each node.
func (c *silentCluster) readCalls() (all []answerChange) {
	c.Helper()
	for _, n := range c.nodes {
		file, err := os.Open(n.Calls)
		require.NoError(c, err)
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			var a answerChange
			require.NoError(c, json.Unmarshal(lines.Bytes(), &a))
			all = append(all, a)
		}
		require.NoError(c, errors.Join(lines.Err(), file.Close()))
	}
	return all
}

// formatQuantiles formats durations, and returns their median and the 99th of a hundred.
func formatQuantiles(of []time.Duration) (text string, median, p99 time.Duration) {
	if len(of) == 0 {
		return "none", 0, 0
	}
	of = slices.Sorted(slices.Values(of))
	at := func(p int) time.Duration { return of[(len(of)*p+99)/100-1] }
	return fmt.Sprintf("%d: p50 %v, p99 %v, max %v", len(of), brief(at(50)), brief(at(99)), brief(at(100))), at(50), at(99)
}

// logResults logs the results of rounds, and returns the median and the 99th of a hundred of the times to the next
// leader and to the answers, each divided by the slowdown of the machine.
func logResults(t *testing.T, what string, results []silentResult) (next, answered [2]time.Duration) {
	t.Helper()
	var b strings.Builder
	columns := []struct {
		name string
		of   func(silentResult) time.Duration
	}{
		{"next leader", func(r silentResult) time.Duration { return r.next }},
		{"etcd has another leader", func(r silentResult) time.Duration { return r.elected }},
		{"the leader's key is gone", func(r silentResult) time.Duration { return r.queue }},
		{"between the two claims", func(r silentResult) time.Duration { return r.distance }},
		{"its shards served, after that", func(r silentResult) time.Duration { return r.served }},
		{"its objects answer, after that", func(r silentResult) time.Duration { return r.answered }},
	}
	for i, column := range columns {
		var all, scaled []time.Duration
		for _, r := range results {
			all = append(all, column.of(r))
			scaled = append(scaled, time.Duration(float64(column.of(r))/r.slowdown))
		}
		text, _, _ := formatQuantiles(all)
		fmt.Fprintf(&b, "\n  %-32s %s", column.name, text)
		_, p50, p99 := formatQuantiles(scaled)
		switch i {
		case 0:
			next = [2]time.Duration{p50, p99}
		case len(columns) - 1:
			answered = [2]time.Duration{p50, p99}
		}
	}
	t.Logf("%s%s", what, &b)
	return next, answered
}
