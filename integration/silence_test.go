//go:build unix

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
)

var (
	silenceRounds = flag.Int("silence.rounds", 1, "how often the leader's process is stopped")
	silenceWithin = flag.Duration("silence.within", 8*time.Second, "how soon after SIGSTOP everybody can see that a node "+
		"does not answer; 3s in the full run, on a machine that does nothing else")
)

// nodesPage is the relevant part of /cluster/nodes.
type nodesPage struct {
	Nodes []struct {
		Address, Health string
		SilentSeconds   int64 `json:"silent_seconds"`
		SilentTo        int   `json:"silent_to"`
	}
}

// page reads a JSON page of a node.
func page(ctx context.Context, n *procs.Node, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.Origin()+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read
	return json.NewDecoder(resp.Body).Decode(into)
}

// showsSilent returns an error unless the node's pages and metrics show that the leader does not answer, or, if
// silent is false, that all nodes do.
func showsSilent(ctx context.Context, n *procs.Node, leader string, silent bool) error {
	var all nodesPage
	if err := page(ctx, n, "/cluster/nodes", &all); err != nil {
		return err
	}
	to := 0
	for _, row := range all.Nodes {
		if row.Address == leader && row.Health == "silent" && row.SilentSeconds >= 2 {
			to = row.SilentTo
		}
	}
	count, err := n.Metric(ctx, "goverse_silent_nodes")
	if err != nil {
		return err
	}
	long, err := n.Metric(ctx, "goverse_leader_silent_seconds")
	if err != nil {
		return err
	}
	if silent && (to != 2 || count != 1 || long < 2) || !silent && (to != 0 || count != 0 || long != 0) {
		return fmt.Errorf("silent to %d, %v silent nodes, leader silent for %v s", to, count, long)
	}
	return nil
}

// says returns an error unless the log has an event of that type about the node since then.
func says(ctx context.Context, n *procs.Node, kind, about string, since time.Time) error {
	var all struct {
		Events []struct {
			Type, Node string
			Time       time.Time
			Seconds    float64
		}
	}
	if err := page(ctx, n, "/cluster/events?limit=100", &all); err != nil {
		return err
	}
	for _, e := range all.Events {
		if e.Type == kind && e.Node == about && e.Time.After(since) && e.Seconds >= 2 {
			return nil
		}
	}
	return errors.New("no such event")
}

// In etcd, a leader with a frozen process looks like any other until its lease expires, without a silence time-out.
func TestSilentLeaderIsShown(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		// The leader is frozen for less than its TTL, however long this machine takes to check it.
		nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: time.Minute,
			Flags: []string{"--silence-timeout", "0"}}, 3)
		leader := nodes[0]
		token := awaitAgreement(t, patience, nodes, leader.Address, election, addresses(nodes)).Token
		watched := func(n *procs.Node) error {
			if watchers, err := n.Metric(requestContext(t), "goverse_crash_watchers"); err != nil || watchers != 2 {
				return fmt.Errorf("%v watchers (%w)", watchers, err)
			}
			return nil
		}
		procs.Await(t, patience, "the leader is watched", func() error { return watched(leader) })
		longest, heard, meter := time.Duration(0), time.Duration(0), pace.StartMeter(t)
		for round := range *silenceRounds {
			meter.StartLap()
			frozen := leader.Freeze(t)
			for _, n := range nodes[1:] {
				procs.Await(t, patience, "shown by "+n.Address, func() error {
					return showsSilent(requestContext(t), n, leader.Address, true)
				})
				procs.Await(t, patience, "an event", func() error {
					return says(requestContext(t), n, "node_silent", leader.Address, frozen)
				})
			}
			status := kit.Goversed(t, "status", "--etcd", etcd.Endpoint, "--prefix", procs.Prefix)
			require.Zero(t, status.Exit(t, patience))
			took, within := time.Since(frozen), meter.Scale(*silenceWithin)
			longest = max(longest, took)
			require.Regexp(t, `leader    `+leader.Address+` \(.*, not answering for \d+ s, seen by 2 nodes\)`, status.Output())
			require.Contains(t, status.Output(), "not answering for")
			if round == 0 {
				doctor := kit.Goversed(t, "doctor", "--etcd", etcd.Endpoint, "--prefix", procs.Prefix)
				require.Equal(t, 1, doctor.Exit(t, patience), doctor.Output())
				require.Contains(t, doctor.Output(), "the leader, "+leader.Address+" does not answer")
			}
			leader.Thaw(t)
			thawed := time.Now()
			for _, n := range nodes {
				procs.Await(t, patience, "cleared by "+n.Address, func() error {
					return showsSilent(requestContext(t), n, leader.Address, false)
				})
			}
			heard = max(heard, time.Since(thawed))
			procs.Await(t, patience, "an event", func() error {
				return says(requestContext(t), nodes[1], "node_answering", leader.Address, frozen)
			})
			require.Equal(t, token, awaitAgreement(t, patience, nodes, leader.Address, election, addresses(nodes)).Token,
				"nothing followed from it")
			require.LessOrEqual(t, took, within)
		}
		t.Logf("%d times, shown after %v at most, cleared after %v", *silenceRounds, longest.Round(time.Millisecond),
			heard.Round(time.Millisecond))
	})
}
