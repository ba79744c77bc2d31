package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/test/logtest"
)

func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	first, second := c.Node(0).Address(), c.Node(1).Address()
	c.WaitLeaderIs(first)
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
	ask := func(args ...string) string {
		t.Helper()
		r := runGoversed(t, env, args...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}

	require.Contains(t, ask("status"), "leader    "+first+" (token ")
	require.Equal(t, first+"\n", ask("leader"))
	require.Contains(t, ask("nodes"), second+"  candidate  2")
	var status map[string]any
	require.NoError(t, json.Unmarshal([]byte(ask("status", "-o", "json")), &status))
	require.Equal(t, first, status["leader_id"])
	require.Equal(t, []any{first, second}, status["queue"])
	require.Equal(t, status["token"], status["term"])

	require.Contains(t, ask("transfer", "--to", second), second+" leads now (token ")
	require.Contains(t, ask("transfer", "--to", second), "leads already")
	c.WaitQueue(second, first) // the former leader queues again a moment later
	require.Contains(t, ask("resign"), first+" leads now (token ")
	c.WaitQueue(first, second)
	var outcome map[string]any
	require.NoError(t, json.Unmarshal([]byte(ask("resign", "-o", "json")), &outcome))
	require.Equal(t, second, outcome["leader_id"])
	require.Equal(t, first, outcome["previous_leader_id"])

	requireOneLine(t, runGoversed(t, env, "transfer", "--to", "127.0.0.1:1"), cli.ExitFailure, "no such member",
		"goversed nodes")
	for _, line := range []string{"leader", "status", "nodes", "status -o json", "resign", "shards", "objects",
		"drain 127.0.0.1:1"} {
		requireOneLine(t, runGoversed(t, env, append(strings.Fields(line), "--prefix", "/other")...), cli.ExitFailure,
			"no node is registered under /other: check --prefix; in this etcd there is /goverse (2 nodes)")
	}
}

// Commands report soon that no server listens.
func TestOperatorsSaySoonThatEtcdIsNotThere(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"status", "leader", "nodes", "shards", "objects", "watch", "events", "resign",
		"transfer --to 127.0.0.1:2", "drain 127.0.0.1:2", "effects", "elections", "locks", "etcd members"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r := runGoversed(t, nil, append(strings.Fields(line), "--etcd", "127.0.0.1:1", "--timeout", "2s")...)
			require.Equal(t, cli.ExitFailure, r.code)
			require.Equal(t, 2, strings.Count(r.stderr, "\n"), r.stderr)
			require.Regexp(t, `(?m)^goversed: waiting for etcd at 127.0.0.1:1, ([1-9]00ms|1(\.[1-5])?s) at most: `+
				`nothing listens there: check --etcd and that etcd runs there$`, r.stderr)
		})
	}
}

func TestOperatorsWithoutEtcd(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"status", "leader", "nodes", "shards", "shards plan", "objects", "objects alice",
		"watch", "events", "events --follow", "resign", "transfer --to 127.0.0.1:2", "drain 127.0.0.1:2",
		"drain --self --undo",
		"effects", "effects show it", "effects resolve it 1 --done"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(line), "--etcd", "127.0.0.1:1", "--timeout", "300ms")
			requireOneLine(t, runGoversed(t, nil, args...), cli.ExitFailure, "etcd cannot be reached at 127.0.0.1:1",
				"check --etcd")
		})
	}
}

// A server that is not etcd is not waited for.
func TestOperatorsAtAnotherServer(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	address := web.Listener.Addr().String()
	for _, line := range []string{"status", "leader", "nodes", "shards", "shards plan", "objects", "objects alice",
		"watch", "events", "events --follow", "resign", "transfer --to 127.0.0.1:2", "drain 127.0.0.1:2",
		"drain --self --undo",
		"effects", "effects show it", "effects resolve it 1 --done", "elections", "elections resign it", "elections " +
			"transfer it 127.0.0.1:2",
		"status --etcd-user u --etcd-password p"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := runGoversed(t, nil, append(strings.Fields(line), "--etcd", address, "--timeout", "25s")...)
			require.Less(t, time.Since(began), 15*time.Second)
			requireOneLine(t, r, cli.ExitFailure, "what answers at "+address+" is no etcd: set --etcd to etcd's client "+
				"address, usually port 2379")
		})
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(context.Background())
	interrupt()
	for _, line := range []string{"status", "transfer --to 127.0.0.1:2", "status --etcd-user u --etcd-password p"} {
		var stdout, stderr logtest.Buffer
		code := runCommandLine(ctx, append(strings.Fields(line), "--etcd", "127.0.0.1:1"), envLookup(nil), &stdout, &stderr)
		require.Equal(t, cli.ExitFailure, code)
		require.Equal(t, "goversed: interrupted\n", stderr.String())
	}
}

func TestWatchUntilInterrupted(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	c.WaitLeaderIs(c.Node(0).Address())
	ctx, interrupt := context.WithCancel(context.Background())
	var stdout, stderr logtest.Buffer
	code := make(chan int, 1)
	go func() {
		code <- runCommandLine(ctx, []string{"watch", "--etcd", c.Etcd().Endpoint(), "-o", "json"}, envLookup(nil), &stdout,
			&stderr)
	}()
	shows := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(stdout.String(), what) }, time.Minute,
			5*time.Millisecond)
	}
	shows(`"queue":["` + c.Node(0).Address() + `"]`)
	second := c.AddNode()
	shows(`"queue":["` + c.Node(0).Address() + `","` + second.Address() + `"]`)
	interrupt()
	require.Equal(t, cli.ExitOK, <-code)
	require.Empty(t, stderr.String())
	for line := range strings.Lines(stdout.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}
