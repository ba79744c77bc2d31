package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func TestLocksCommand(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	first, second := c.Node(0).Address(), c.Node(1).Address()
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
	ask := func(args ...string) string {
		t.Helper()
		r := runGoversed(t, env, append([]string{"locks"}, args...)...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}
	list := func(args ...string) (all operator.List[operator.NamedLock]) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(ask(append(args, "-o", "json")...)), &all))
		return all
	}
	require.Equal(t, "no lock under /goverse is held\n", ask())
	require.Equal(t, "{\"items\":[],\"more\":false}\n", ask("list", "-o", "json"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hold := func(node int, name string, opts ...lock.Option) lock.Held {
		t.Helper()
		held, err := c.Node(node).Cluster().Locks().Acquire(ctx, name, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = held.Release(context.Background()) }) // before the nodes stop
		return held
	}
	nightly := hold(0, "nightly")
	hold(0, "cache/a b", lock.Shared())
	hold(1, "cache/a b", lock.Shared())
	waits := make(chan error, 1)
	go func() {
		_, err := c.Node(1).Cluster().Locks().Acquire(ctx, "nightly")
		waits <- err
	}()
	c.Eventually(func() bool {
		all := list("--name-prefix", "night")
		return len(all.Items) == 1 && all.Items[0].Waiting == 1
	}, "the second node waits")

	all := list()
	require.False(t, all.More)
	require.Len(t, all.Items, 2)
	require.Equal(t, operator.NamedLock{Name: "nightly", Mode: operator.LockExclusive, Waiting: 1,
		Holders: []operator.LockHolder{{Owner: first, Token: nightly.Token()}}}, all.Items[1])
	shared := all.Items[0]
	require.Equal(t, "cache/a b", shared.Name)
	require.Equal(t, operator.LockShared, shared.Mode)
	require.Zero(t, shared.Waiting)
	require.Equal(t, []string{first, second}, []string{shared.Holders[0].Owner, shared.Holders[1].Owner})
	text := ask()
	require.Equal(t, text, ask("list"))
	require.True(t, strings.HasPrefix(text, "LOCK         MODE       HOLDER"), text)
	require.Regexp(t, `(?m)^"cache/a b"  shared     `+first+`, `+second+`  \d+, \d+ +0$`, text)
	require.Regexp(t, `(?m)^nightly      exclusive  `+first+` +\d+ +1$`, text)

	// A list that is cut short is continued by the word that it shows.
	page := list("--limit", "1")
	require.True(t, page.More)
	require.Len(t, page.Items, 1)
	rest := list("--limit", "1", "--after", page.Next)
	require.False(t, rest.More)
	require.ElementsMatch(t, all.Items, append(page.Items, rest.Items...))
	require.Contains(t, ask("--limit", "1"),
		"there are more: go on with --after "+page.Next+", or give a larger --limit\n")
	require.Equal(t, all, list("--limit", "0"))

	requireOneLine(t, runGoversed(t, nil, "locks", "--etcd", "127.0.0.1:1", "--timeout", "300ms"), cli.ExitFailure,
		"etcd cannot be reached at 127.0.0.1:1", "check --etcd")
	requireOneLine(t, runGoversed(t, env, "locks", "--after", `"x`), cli.ExitUsage, "goversed locks shows it")
	cancel()
	require.Error(t, <-waits)
}
