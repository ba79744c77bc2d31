package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding/shardview"
)

func TestShardsCommands(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Sharding.Window, cfg.Labels = 20*time.Millisecond, map[string]string{"place": []string{"first", "second"}[i]}
	}))
	first, second := c.Node(0).Address(), c.Node(1).Address()
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint(), "GOVERSE_SHARD_WINDOW": "3s"}
	ask := func(into any, args ...string) string {
		t.Helper()
		if into != nil {
			args = append(args, "-o", "json")
		}
		r := runGoversed(t, env, args...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		if into != nil {
			require.NoError(t, json.Unmarshal([]byte(r.stdout), into))
		}
		return r.stdout
	}
	var v shard.Table
	require.Eventually(t, func() bool {
		v = shard.Table{}
		r := runGoversed(t, env, "shards", "-o", "json") // fails until there is a map
		return r.code == cli.ExitOK && json.Unmarshal([]byte(r.stdout),
			&v) == nil && len(v.Owners) == 2 && v.Balance.Least == 4096 && v.OpenMoves == 0
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, 8192, v.Count)
	require.Equal(t, 8192, v.MayServe())
	text := ask(nil, "shards")
	for _, says := range []string{"shards    8192, of which 8192 may be served\n", "balance   4096 to 4096 an owner\n",
		"moves     0 open\n",
		first + "  alive  1       4096   4096       "} {
		require.Contains(t, text, says)
	}

	require.Contains(t, ask(nil, "shards", "plan"), "nothing would move\n")
	var f shardview.Preview
	ask(&f, "shards", "plan", "--without", second)
	require.Len(t, f.Steps, 1)
	require.Equal(t, shardview.Transfer{Reason: shardview.Drained, From: second, To: first, Count: 4096,
		Shards: v.Owner(second, inspect.Snapshot(c.Node(1).Cluster()).Member(second).Incarnation).Shards},
		f.Steps[0].Transfers[0])
	text = ask(nil, "shards", "plan", "--with", "127.0.0.1:9,127.0.0.1:10=2")
	require.Contains(t, text, "after 3s: 4914 rebalanced (for an even load)\n", "the variable counts")
	require.Regexp(t, `(?m)^127\.0\.0\.1:10 +0 +3276$`, text)
	require.Contains(t, ask(nil, "shards", "plan", "--shard-exclude", "place=first"), "4096 drained")
	require.Contains(t, ask(nil, "shards", "plan", "--without", first, "--without", second), "no node can take shards")

	require.NotContains(t, ask(nil, "shards", "plan", "--help"), "(default )")
	requireOneLine(t, runGoversed(t, env, "shards", "plan", "--without", "127.0.0.1:1"), cli.ExitFailure,
		"--without: no such node: 127.0.0.1:1; goversed nodes shows them")
	requireOneLine(t, runGoversed(t, env, "shards", "plan", "--with", first), cli.ExitFailure,
		"--with: a node is registered at that address")
	requireOneLine(t, runGoversed(t, env, "shards", "--prefix", "/other"), cli.ExitFailure,
		"no node is registered under /other: check --prefix")
	requireOneLine(t, runGoversed(t, env, "shards", "plan", "--prefix", "/other"), cli.ExitFailure,
		"no node is registered under /other: check --prefix")
}
