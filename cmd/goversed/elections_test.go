package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

func TestElectionsCommands(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	first, second := c.Node(0).Address(), c.Node(1).Address()
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
	ask := func(args ...string) string {
		t.Helper()
		r := runGoversed(t, env, append([]string{"elections"}, args...)...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}
	require.Equal(t, "no named election under /goverse has candidates\n", ask())
	require.Equal(t, "{\"items\":[],\"more\":false}\n", ask("-o", "json"))
	for i := range 2 {
		e, err := c.Node(i).Cluster().Elections().Stand("outbox")
		require.NoError(t, err)
		c.Eventually(func() bool { return len(e.Queue()) == i+1 }, "it stands")
	}
	require.Contains(t, ask(), "outbox    "+first)
	require.Equal(t, ask(), ask("list"))
	require.Contains(t, ask("list", "--name-prefix", "in"), "no named election under")
	require.Contains(t, ask("transfer", "outbox", second), second+" leads now (token ")
	require.Contains(t, ask("transfer", "outbox", second), "leads already")
	var outcome map[string]any
	require.NoError(t, json.Unmarshal([]byte(ask("resign", "outbox", "-o", "json")), &outcome))
	require.Equal(t, first, outcome["leader_id"])
	requireOneLine(t, runGoversed(t, env, "elections", "transfer", "outbox", "127.0.0.1:1"), cli.ExitFailure,
		"does not stand in the election")
	requireOneLine(t, runGoversed(t, env, "elections", "resign", "inbox"), cli.ExitFailure,
		"there is no leader at the moment; goversed elections shows")
	requireOneLine(t, runGoversed(t, env, "elections", "resign"), cli.ExitUsage, "NAME is missing")
	requireOneLine(t, runGoversed(t, env, "elections", "transfer", "outbox"), cli.ExitUsage, "TO is missing")
	requireOneLine(t, runGoversed(t, env, "elections", "transfer", "outbox", ""), cli.ExitUsage, "TO is empty")
	requireOneLine(t, runGoversed(t, env, "elections", "resign", "outbox", "inbox"), cli.ExitUsage,
		`unexpected argument "inbox"`)
	requireOneLine(t, runGoversed(t, env, "elections", "resign", ""), cli.ExitUsage, "NAME: bad name")
	for _, args := range [][]string{{}, {"resign", "outbox"}} {
		args = append(append([]string{"elections"}, args...), "--etcd", "127.0.0.1:1", "--timeout", "300ms")
		requireOneLine(t, runGoversed(t, nil, args...), cli.ExitFailure, "etcd cannot be reached at 127.0.0.1:1",
			"check --etcd")
	}
}
