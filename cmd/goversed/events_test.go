package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestEventsCommand(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	first, second := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}

	// A follower sees past events first, and then new ones.
	ctx, interrupt := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() {
		code := runCommandLine(ctx, []string{"events", "--follow", "-o", "json"}, envLookup(env), in, io.Discard)
		_ = in.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(out)
	seen := map[event.Type]map[string]event.Event{}
	until := func(typ event.Type, node string) event.Event {
		t.Helper()
		for seen[typ][node].ID == "" {
			require.True(t, lines.Scan(), "the command ended")
			var e event.Event
			require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
			if seen[e.Type] == nil {
				seen[e.Type] = map[string]event.Event{}
			}
			seen[e.Type][e.Node] = e
		}
		return seen[typ][node]
	}
	until(event.LeaderElected, first.Address())
	require.NoError(t, first.Cluster().Resign(etcdtest.Context(t)))
	elected := until(event.LeaderElected, second.Address())
	require.NotZero(t, elected.Token)
	until(event.LeaderLost, first.Address()) // recorded by that node itself, before or after
	interrupt()
	for lines.Scan() { // skip other events
	}
	require.Equal(t, cli.ExitOK, <-ended)

	r := runGoversed(t, env, "events")
	require.Equal(t, cli.ExitOK, r.code, r.stderr)
	require.Empty(t, r.stderr)
	require.Regexp(t, `(?m)^\S+Z  leader_lost        `+first.Address()+`  token \d+  resigned$`, r.stdout)
	require.Regexp(t, `(?m)^\S+Z  leader_elected     `+second.Address()+`  token \d+`, r.stdout)
	require.Equal(t, 1, strings.Count(runGoversed(t, env, "events", "--limit", "1").stdout, "\n"))
	require.Empty(t, runGoversed(t, env, "events", "--since", time.Now().Add(time.Hour).Format(time.RFC3339)).stdout)
	require.Equal(t, r.stdout, runGoversed(t, env, "events", "--since", "1h").stdout)

	require.NoError(t, second.Cluster().Events().Record(etcdtest.Context(t), "app_import", map[string]string{"file": "a"}))
	r = runGoversed(t, env, "events", "--types", "app_import,app_export")
	require.Regexp(t, `^\S+Z  app_import         `+second.Address()+`  {"file":"a"}\n$`, r.stdout)
	require.Regexp(t, `^{.*"data":{"file":"a"}.*}\n$`, runGoversed(t, env, "events", "--types", "app_import", "-o",
		"json").stdout)

	_, err := c.Client().Put(etcdtest.Context(t), "/goverse/events/foreign", "by somebody's hand")
	require.NoError(t, err)
	r = runGoversed(t, env, "events")
	require.Equal(t, cli.ExitOK, r.code)
	require.Equal(t, "1 values below /goverse/events/ are not events and were skipped\n", r.stderr)

	requireOneLine(t, runGoversed(t, env, "events", "--since", "yesterday"), cli.ExitUsage,
		`--since "yesterday": give how `+
			`long ago`)
	requireOneLine(t, runGoversed(t, env, "events", "--limit", "-1"), cli.ExitUsage, "--limit -1")
}

// A user without the right to read the log learns which right to grant.
func TestEventsWithoutTheRight(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	etcdtest.EnableAuth(t, server.Client(), "secret", "nobody")
	env := map[string]string{"GOVERSE_ETCD": server.Endpoint(), "GOVERSE_ETCD_USER": "nobody",
		"GOVERSE_ETCD_PASSWORD": "secret"}
	requireOneLine(t, runGoversed(t, env, "events"), cli.ExitFailure, "READ on the prefix /goverse/events/")
}
