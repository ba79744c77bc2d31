//go:build unix

package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// four is a source of the events 1 to 4.
type four struct{}

func (four) Read(_ context.Context, after processor.Position, _ int) (all []processor.Event[int], err error) {
	n, _ := strconv.Atoi(string(after)) // "" is 0
	for n++; n <= 4; n++ {
		all = append(all, processor.Event[int]{Position: processor.Position(strconv.Itoa(n)), Value: n})
	}
	return all, nil
}

// The commands do the same for checkpoints in etcd and in PostgreSQL.
func TestProcessorsCommand(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		server := etcdtest.Start(t)
		m, err := processor.NewEtcd(processor.EtcdConfig{Client: etcdtest.Dial(t, server.Endpoint())})
		require.NoError(t, err)
		env := map[string]string{"GOVERSE_ETCD": server.Endpoint()}
		commandProcessors(t, m, env)
		r := runGoversed(t, env, "events")
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		for i, want := range []string{"processor_paused .* a b  by .*@.*  a migration", "processor_retried .* position 2",
			"processor_resumed", "processor_retried", "processor_retried", "processor_dropped .* position 3",
			"processor_rewound .* from 4 to 3  by", "processor_rewound .* from [34] to the beginning", "processor_unfenced"} {
			require.Regexp(t, want, lines[i])
		}
		require.Len(t, lines, 9, r.stdout)
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgserver.StartForTest(t).URL()
		pool, err := pgxpool.New(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		m, err := postgres.New(postgres.Config{DB: pool, Table: "positions"})
		require.NoError(t, err)
		env := map[string]string{"GOVERSE_POSTGRES": url, "GOVERSE_TABLE": "positions"}
		r := runGoversed(t, env, "processors")
		require.Equal(t, cli.ExitFailure, r.code)
		require.Contains(t, r.stderr, "CreateTables")
		require.NoError(t, m.CreateTables(t.Context()))
		commandProcessors(t, m, env) // there is no event log yet
		_, err = pool.Exec(t.Context(), pgsession.SchemaSQL(""))
		require.NoError(t, err)
		require.NoError(t, pgnode.CreateTables(t.Context(), pool, ""))
		r = runGoversed(t, env, "processors", "rewind", "a b", "3", "--reason", "a new view")
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		all, _, err := pgnode.ListEvents(t.Context(), pool, "", event.Query{})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, event.ProcessorRewound, all[0].Type)
		require.Equal(t, []string{"a b", "3", "a new view"},
			[]string{all[0].Processor, all[0].Position, all[0].Reason})
		require.Contains(t, all[0].By, "@")
	})
	r := runGoversed(t, map[string]string{"GOVERSE_POSTGRES": "postgres://a:secret@host:x/db"}, "processors")
	require.NotEqual(t, cli.ExitOK, r.code)
	require.Contains(t, r.stderr, "--postgres")
	require.NotContains(t, r.stderr, "secret")
	for _, wrong := range [][]string{{"pause"}, {"rewind", "a"}, {"rewind", "a", ""}, {"drop", "a"},
		{"list", "--limit", "-1"}, {"parked", ""}} {
		r := runGoversed(t, nil, append([]string{"processors"}, wrong...)...)
		require.Equal(t, cli.ExitUsage, r.code, wrong)
	}
}

func commandProcessors(t *testing.T, m interface {
	processor.Manager
	processor.Checkpoint
}, env map[string]string) {
	ask := func(code int, args ...string) string {
		t.Helper()
		r := runGoversed(t, env, append([]string{"processors"}, args...)...)
		require.Equal(t, code, r.code, r.stdout+r.stderr)
		return r.stdout + r.stderr
	}
	require.Contains(t, ask(cli.ExitOK), "no processor ")
	var mu sync.Mutex
	fails, handled := map[int]bool{2: true, 3: true}, 0
	p, err := processor.New(processor.Config[int]{Name: "a b", Source: four{}, Checkpoint: m, MaxAttempts: 1, Node: "here",
		CheckInterval: 10 * time.Millisecond, PollInterval: 10 * time.Millisecond,
		Handler: func(_ context.Context, e processor.Event[int]) error {
			mu.Lock()
			defer mu.Unlock()
			if fails[e.Value] {
				return processor.ErrPoison
			}
			handled++
			return nil
		}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	defer running.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return p.Status().Position == "4" }, 3*time.Minute, time.Millisecond)

	atLeast := func(n int) { // an attempt whose transaction was rolled back counts as well
		t.Helper()
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return handled >= n
		}, 3*time.Minute, time.Millisecond)
	}
	require.Contains(t, ask(cli.ExitOK, "pause", "a b", "--reason", "a migration"), `"a b" is paused`)
	list := ask(cli.ExitOK)
	require.Contains(t, list, "paused")
	require.Contains(t, list, "a migration")
	require.Contains(t, list, "here")
	var all operator.List[processor.Standing]
	require.NoError(t, json.Unmarshal([]byte(ask(cli.ExitOK, "list", "-o", "json", "--name-prefix", "a")), &all))
	require.Len(t, all.Items, 1)
	require.Equal(t, "a migration", all.Items[0].Pause.Reason)
	require.Contains(t, all.Items[0].Pause.By, "@")
	require.Contains(t, ask(cli.ExitFailure, "retry", "a b", "2", "--timeout", "1s"), "the request is stored")
	require.Contains(t, ask(cli.ExitOK, "parked", "a b"), "requested")
	require.NotContains(t, ask(cli.ExitOK, "resume", "a b"), "paused")
	require.Contains(t, ask(cli.ExitFailure, "retry", "a b", "2"), "failed again")
	mu.Lock()
	fails[2] = false
	mu.Unlock()
	require.Contains(t, ask(cli.ExitOK, "retry", "a b", "2"), "1 events parked")
	require.Contains(t, ask(cli.ExitFailure, "retry", "a b", "2"), "no event is parked")
	require.Contains(t, ask(cli.ExitOK, "drop", "a b", "3"), "0 events parked")
	require.Contains(t, ask(cli.ExitOK, "parked", "a b"), "no event is parked")
	ask(cli.ExitOK, "rewind", "a b", "3")
	atLeast(4)
	ask(cli.ExitOK, "reset", "a b")
	atLeast(7)
	ask(cli.ExitOK, "unfence", "a b")
	for _, verb := range []string{"pause", "resume", "reset", "unfence", "parked"} {
		require.Contains(t, ask(cli.ExitFailure, verb, "other"), "no such processor")
	}
}
