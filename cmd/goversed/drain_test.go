package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/test/logtest"
)

// startShared returns a cluster of two nodes with four shards each.
func startShared(t *testing.T) (c *clustertest.Cluster, env map[string]string) {
	t.Helper()
	c = clustertest.New(t, 2, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 8, Window: 20 * time.Millisecond}
	}))
	awaitSharesServed(c)
	return c, map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
}

// awaitSharesServed waits until each of the two nodes serves its four shards. A node has released all shards that the
// other one serves.
func awaitSharesServed(c *clustertest.Cluster) {
	c.Eventually(func() bool {
		return c.Node(0).Cluster().Shards().Held() == 4 && c.Node(1).Cluster().Shards().Held() == 4
	}, "each has its share")
}

func TestDrainCommand(t *testing.T) {
	t.Parallel()
	c, env := startShared(t)
	first, second := c.Node(0).Address(), c.Node(1).Address()
	ask := func(args ...string) string {
		t.Helper()
		r := runGoversed(t, env, args...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}
	require.Regexp(t, `^draining `+second+`, which has 4 shards\n`+second+` is empty: it gave up 4 shards in [0-9.]+m?s, `+
		`and gets none until `+
		`goversed drain --undo `+second+`, or until it starts again\n$`, ask("drain", second))
	require.Regexp(t, `(?m)^`+second+` +candidate .* draining$`, ask("nodes"))
	require.Regexp(t, `(?m)^`+second+` +draining +1 +0 +0 +-$`, ask("shards"))
	requireOneLine(t, runGoversed(t, env, "drain", first), cli.ExitFailure,
		"no other node could take the shards of "+first)
	require.Equal(t, second+" may have shards again: it gets its share when the load is rebalanced\n", ask("drain",
		"--undo", second))
	require.Equal(t, second+" was not draining\n", ask("drain", second, "--undo"))

	// With --self the variables of goversed node select the node. Without any argument nothing is drained.
	awaitSharesServed(c)
	env["GOVERSE_LISTEN"] = second
	env["GOVERSE_ADVERTISE"] = first
	var d operator.Drained
	require.NoError(t, json.Unmarshal([]byte(ask("drain", "--self", "-o", "json")), &d), "the result and nothing else")
	require.Equal(t, operator.Drained{Address: first, Incarnation: d.Incarnation, Draining: true, Changed: true,
		Released: 4, Seconds: d.Seconds, Leader: true}, d)
	requireOneLine(t, runGoversed(t, env, "drain"), cli.ExitUsage, "which node?", "ADDRESS", "--self")
	requireOneLine(t, runGoversed(t, env, "drain", "--self", second), cli.ExitUsage, "give --self or the ADDRESS")
	require.Contains(t, ask("drain", "--self"), "it leads on: goversed resign hands that over")
	delete(env, "GOVERSE_ADVERTISE")
	require.Contains(t, ask("drain", "--self", "--undo"), second+" was not draining")
	env["GOVERSE_LISTEN"] = ":47001"
	requireOneLine(t, runGoversed(t, env, "drain", "--self"), cli.ExitFailure, "give its ADDRESS instead",
		"no such node: :47001; there are ", first, second)
	requireOneLine(t, runGoversed(t, env, "drain", "127.0.0.1:1"), cli.ExitFailure,
		"no such node: 127.0.0.1:1; there are ")
	requireOneLine(t, runGoversed(t, env, "drain", first, second), cli.ExitUsage, "one node at a time")
	requireOneLine(t, runGoversed(t, env, "drain", ""), cli.ExitUsage, "ADDRESS is empty")
	requireOneLine(t, runGoversed(t, env, "drain", first, "--prefix", "/other"), cli.ExitFailure,
		"no node is registered under /other: check --prefix")
}

// The error of a drain that takes too long, or is interrupted, names the part that continues.
func TestInterruptedDrain(t *testing.T) {
	t.Parallel()
	c, env := startShared(t)
	n := c.Node(1)
	shards := n.Cluster().Shards()
	key := "a"
	for {
		if owner, ok := shards.Owner(key); ok && owner.Address == n.Address() {
			break
		}
		key += "a"
	}
	inside, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, shards.Serve(context.Background(), key, func(context.Context, int64) error {
			close(inside)
			<-end
			return nil
		}))
	}()
	<-inside
	other := c.Node(0).Cluster()
	r := runGoversed(t, env, "drain", n.Address(), "--timeout", "2s")
	requireFailed(t, r, "goversed: the node is not empty yet: "+n.Address()+" has 1 of 4 shards and goes on draining; ")
	c.Eventually(func() bool { return other.Shards().Held() == 7 }, "all but one are handed over")

	ctx, interrupt := context.WithCancel(context.Background())
	var stdout, stderr logtest.Buffer
	code := make(chan int, 1)
	go func() {
		code <- runCommandLine(ctx, []string{"drain", n.Address(), "--etcd", c.Etcd().Endpoint()}, envLookup(nil), &stdout,
			&stderr)
	}()
	c.Eventually(func() bool { return strings.Contains(stdout.String(), "which has 1 shard\n") }, "it began")
	interrupt()
	require.Equal(t, cli.ExitFailure, <-code)
	requireFailed(t, runResult{cli.ExitFailure, stdout.String(), stderr.String()},
		"goversed: interrupted: the node is not empty yet: "+n.Address()+" has 1 of 1 shards and goes on draining; ")
	close(end)
	<-ended
}

// requireFailed fails unless a single line gives the reason why an operation did not finish.
func requireFailed(t *testing.T, r runResult, says string) {
	t.Helper()
	require.Equal(t, cli.ExitFailure, r.code)
	require.True(t, strings.HasPrefix(r.stderr, says), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
}

// With --self, goversed drain selects the node that goversed node would run.
func TestDrainMeansTheNodeHere(t *testing.T) {
	t.Parallel()
	root := newRoot(envLookup(nil))
	node, _, err := root.Find([]string{"node"})
	require.NoError(t, err)
	drain, _, err := root.Find([]string{"drain"})
	require.NoError(t, err)
	for _, name := range []string{"listen", "advertise"} {
		require.Equal(t, node.Flag(name).DefValue, drain.Flag(name).DefValue)
	}
}
