//go:build unix

package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	electionpg "github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/lock"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const pgPatience = time.Minute

// openSession opens a session that is closed with the test.
func openSession(t *testing.T, url, owner string) *pgsession.Session {
	t.Helper()
	return openSessionFor(t, url, owner, 20*time.Second)
}

func openSessionFor(t *testing.T, url, owner string, deadline time.Duration) *pgsession.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pgPatience)
	defer cancel()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: url, Owner: owner, Deadline: deadline})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), pgPatience)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	})
	return s
}

// The lists of elections and locks are those of PostgreSQL, also in completions.
func TestListsInPostgres(t *testing.T) {
	t.Parallel()
	url := pgserver.StartForTest(t).URL()
	env := map[string]string{"GOVERSE_POSTGRES": url}
	for _, verb := range []string{"locks", "elections", "status", "events"} {
		requireOneLine(t, runGoversed(t, env, verb), cli.ExitFailure, "in the schema goverse: check --schema")
	}
	a, b := openSession(t, url, "a"), openSession(t, url, "b")
	ask := func(args ...string) string {
		t.Helper()
		r := runGoversed(t, env, args...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		return r.stdout
	}
	require.Equal(t, "no lock in the schema goverse is held\n", ask("locks"))
	require.Equal(t, "no named election in the schema goverse has candidates\n", ask("elections", "list"))
	require.Equal(t, "{\"items\":[],\"more\":false}\n", ask("locks", "-o", "json"))

	for _, name := range []string{"nightly", "cache/a b", "other"} {
		_, err := lockpg.New(a).Acquire(t.Context(), name, lock.Shared())
		require.NoError(t, err)
	}
	_, err := lockpg.New(b).Acquire(t.Context(), "nightly", lock.Shared())
	require.NoError(t, err)
	waits := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := lockpg.New(b).Acquire(ctx, "nightly")
		waits <- err
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(ask("locks", "list"), "nightly  ") &&
			strings.HasSuffix(strings.TrimSpace(strings.Split(ask("locks", "--name-prefix", "night"), "\n")[1]), "1")
	},
		pgPatience, 10*time.Millisecond)
	var locks operator.List[operator.NamedLock]
	require.NoError(t, json.Unmarshal([]byte(ask("locks", "-o", "json", "--limit", "2")), &locks))
	require.True(t, locks.More)
	require.Equal(t, []string{"cache/a b", "nightly"}, []string{locks.Items[0].Name, locks.Items[1].Name})
	require.Equal(t, "nightly", locks.Next)
	require.Equal(t, 1, locks.Items[1].Waiting)
	require.Equal(t, []string{"a", "b"}, []string{locks.Items[1].Holders[0].Owner, locks.Items[1].Holders[1].Owner})
	require.Contains(t, ask("locks", "--after", "nightly"), "other")
	cancel()
	require.Error(t, <-waits)

	var candidates []*electionpg.Candidate
	for _, s := range []*pgsession.Session{a, b} {
		c, err := electionpg.New(s).Stand("outbox")
		require.NoError(t, err)
		candidates = append(candidates, c)
		require.Eventually(t, func() bool { return len(c.Queue()) == len(candidates) }, pgPatience, time.Millisecond)
	}
	require.Eventually(t, candidates[0].IsLeader, pgPatience, time.Millisecond)
	var elections operator.List[operator.NamedElection]
	require.NoError(t, json.Unmarshal([]byte(ask("elections", "-o", "json")), &elections))
	term, _ := candidates[0].Term()
	require.Equal(t, []operator.NamedElection{{Name: "outbox", LeaderID: "a", Token: term.Token(),
		Candidates: []operator.NamedCandidate{{Address: "a", Member: true}, {Address: "b", Member: true}}}}, elections.Items)
	require.Regexp(t, `(?m)^outbox +a +\d+ +b$`, ask("elections"))

	found, _ := complete(t, env, "exec", "--election", "")
	require.Equal(t, []string{"outbox"}, found)
	found, _ = complete(t, env, "lock", "")
	require.Equal(t, []string{"nightly", "other"}, found)
	found, _ = complete(t, env, "elections", "--after", "x")
	require.Empty(t, found)

	requireOneLine(t, runGoversed(t, env, "locks", "--schema", "none"), cli.ExitFailure, "in the schema none")
	requireOneLine(t, runGoversed(t, nil, "locks", "--schema", "none"), cli.ExitUsage, "--schema concerns PostgreSQL")
	requireOneLine(t, runGoversed(t, nil, "locks", "--postgres", url, "--etcd-user", "u"), cli.ExitUsage,
		"--etcd-user concerns etcd, and --postgres is given")
	requireOneLine(t, runGoversed(t, nil, "elections", "--postgres", "postgres://u:secret@127.0.0.1:1/d", "--timeout",
		"1s"),
		cli.ExitFailure, "connection refused")
}

// status, leader, nodes and events show a cluster of nodes in PostgreSQL as they show one in etcd.
func TestClusterInPostgres(t *testing.T) {
	t.Parallel()
	url := pgserver.StartForTest(t).URL()
	env := map[string]string{"GOVERSE_POSTGRES": url}
	ask := func(code int, args ...string) string {
		t.Helper()
		r := runGoversed(t, env, args...)
		require.Equal(t, code, r.code, r.stderr)
		return r.stdout + r.stderr
	}
	var nodes []*pgnode.Node
	for _, owner := range []string{"a", "b"} {
		n, err := pgnode.Join(t.Context(), openSession(t, url, owner), pgnode.Config{HTTPAddress: "http://" + owner + ":8080",
			Version: "v1"})
		require.NoError(t, err)
		nodes = append(nodes, n)
		require.Eventually(t, func() bool {
			return len(n.Status().Queue) == len(nodes) && strings.Contains(ask(cli.ExitOK, "events"), "leader_elected")
		}, pgPatience, time.Millisecond)
	}
	var d operator.Details
	require.Eventually(t, func() bool {
		require.NoError(t, json.Unmarshal([]byte(ask(cli.ExitOK, "status", "-o", "json")), &d))
		return d.Lease != nil && d.LeaderID == "a" && len(d.Queue) == 2
	}, pgPatience, 10*time.Millisecond)
	require.True(t, d.Member)
	require.Equal(t, d.Token, d.Lease.Term)
	require.Equal(t, []string{"a", "b"}, d.Nodes)
	require.Equal(t, []string{"leader", "candidate"}, []string{d.Members[0].State, d.Members[1].State})
	require.Equal(t, 2, d.Members[1].Place)
	require.Less(t, *d.Members[0].HeartbeatSeconds, 20.)
	text := ask(cli.ExitOK, "status")
	require.Regexp(t, `(?m)^leader    a \(token \d+, election\)$`, text)
	require.Regexp(t, `(?m)^queue     a, b$`, text)
	require.Regexp(t, `(?m)^lease     a since \S+, renewed \S+, until \S+$`, text)
	require.Regexp(t, `(?m)^b +candidate +2 +\S+ +http://b:8080 +v1 +-$`, text)
	require.Equal(t, "a\n", ask(cli.ExitOK, "leader"))
	require.Contains(t, ask(cli.ExitOK, "nodes"), "http://a:8080")
	require.Contains(t, ask(cli.ExitFailure, "leader", "--node-election", "other"), "no leader")

	require.Regexp(t, `(?s)node_joined +a.*leader_elected +a +token \d+.*node_joined +b`, ask(cli.ExitOK, "events"))
	require.Equal(t, 1, strings.Count(ask(cli.ExitOK, "events", "--types", "node_joined", "--limit", "1"), "\n"))
	require.Empty(t, ask(cli.ExitOK, "events", "--since", "0s"))
	require.Contains(t, ask(cli.ExitUsage, "events", "--limit", "-1"), "--limit -1")

	ctx, cancel := context.WithCancel(t.Context())
	var out, errs logtest.Buffer
	followed := make(chan int, 1)
	go func() {
		followed <- runCommandLine(ctx, []string{"events", "--follow", "-o", "json", "--types", "node_left,app_x"},
			envLookup(env), &out, &errs)
	}()
	require.NoError(t, nodes[1].Events().Record(t.Context(), "app_x", nil))
	out.Await(t, "app_x")
	require.NoError(t, nodes[1].Leave(t.Context()))
	out.Await(t, "node_left")
	cancel()
	<-followed
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	for line := range strings.Lines(out.String()) {
		var e event.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.True(t, slices.Contains([]event.Type{"node_left", "app_x"}, e.Type))
		require.Equal(t, "b", e.Node)
	}
	require.NoError(t, nodes[0].Leave(t.Context()))
	require.Contains(t, ask(cli.ExitOK, "status"), "no node is registered in the schema goverse: check --schema")
}

func TestDoctorOfPostgres(t *testing.T) {
	t.Parallel()
	url := pgserver.StartForTest(t).URL()
	env := map[string]string{"GOVERSE_POSTGRES": url, "GOVERSE_FOR": "lock"}
	openSessionFor(t, url, "a", 7*time.Second)
	r := runGoversed(t, env, "doctor", "--ttl", "7s")
	require.Equal(t, cli.ExitOK, r.code, r.stdout+r.stderr)
	require.Empty(t, r.stderr)
	require.Regexp(t, `(?m)^ok +sessions +1 session, each with heartbeats$`, r.stdout)
	require.Regexp(t, `(?m)^note +sessions +the session of a has a deadline of 7s, and PostgreSQL is judged here by 3s$`,
		runGoversed(t, env, "doctor", "--schema", "goverse").stdout)

	r = runGoversed(t, nil, "doctor", "--postgres", "postgres://u:secret@127.0.0.1:1/d", "-o", "json")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.stdout, `{"check":"server","severity":"problem","says":"PostgreSQL does not answer: `)
	require.NotContains(t, r.stdout+r.stderr, "secret")
	for line, says := range map[string]string{"--ttl 1h": "--ttl 1h0m0s: give from 200ms",
		"--for lock":    "--for concerns etcd",
		"--node-cert x": "--node-cert concerns etcd", "--timeout 0s": "--timeout 0s"} {
		requireOneLine(t, runGoversed(t, nil, append([]string{"doctor", "--postgres", url}, strings.Fields(line)...)...),
			cli.ExitUsage, says)
	}
}
