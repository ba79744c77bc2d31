//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/automation/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerURL); url != "" {
		if err := work(url); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

const patience = time.Minute

// testBed is a database; each part of the test has tables of its own.
type testBed struct {
	server *pgserver.Server
	pool   *pgxpool.Pool
	last   atomic.Int64
}

// jobs is a table of jobs: n, and done when it is done. Its effects are rows of another table.
type jobs struct {
	*testBed
	t              *testing.T
	table, effects string
}

func (s *testBed) newJobs(t *testing.T, n int) *jobs {
	t.Helper()
	j := &jobs{testBed: s, t: t, table: "jobs_" + strconv.FormatInt(s.last.Add(1), 10)}
	j.effects = "effects_of_" + j.table
	j.exec("create table " + j.table + " (id bigint primary key, n int, done timestamptz)")
	j.exec("create table " + j.effects + " (n int, unique (n) deferrable initially deferred)")
	j.exec("insert into "+j.table+" select i, i from generate_series(1, $1::int) i", n)
	return j
}

func (j *jobs) exec(sql string, args ...any) {
	j.t.Helper()
	_, err := j.pool.Exec(etcdtest.Context(j.t), sql, args...)
	require.NoError(j.t, err)
}

func (j *jobs) number(sql string) (n int) {
	j.t.Helper()
	require.NoError(j.t, j.pool.QueryRow(etcdtest.Context(j.t), sql).Scan(&n))
	return n
}

func (j *jobs) left() int { return j.number("select count(*) from " + j.table + " where done is null") }

// requireEffects requires that the first n jobs took effect once each.
func (j *jobs) requireEffects(n int) {
	j.t.Helper()
	require.Equal(j.t, n, j.number("select count(*) from "+j.effects))
	require.Equal(j.t, n, j.number("select count(distinct n) from "+j.effects))
}

func jobsConfig(pool *pgxpool.Pool, table string) postgres.Config[int] {
	return postgres.Config[int]{DB: pool, Table: table, Key: "id", Where: "done is null", OrderBy: "id", Select: "n",
		Scan: pgx.RowTo[int], Done: "update " + table + " set done = now() where id = $1"}
}

// connect returns a pool with that default_query_exec_mode.
func (j *jobs) connect(mode string) *pgxpool.Pool {
	j.t.Helper()
	cfg, err := pgxpool.ParseConfig(j.server.URL())
	require.NoError(j.t, err)
	cfg.MaxConns = 8
	switch mode {
	case "simple_protocol":
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	case "exec":
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	case "cache_describe":
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(j.t, err)
	j.t.Cleanup(pool.Close)
	return pool
}

// source returns the jobs as one process sees them, with a pool of its own.
func (j *jobs) source(change ...func(*postgres.Config[int])) *postgres.Source[int] {
	j.t.Helper()
	cfg := jobsConfig(j.connect(""), j.table)
	cfg.RequestTimeout = patience
	for _, c := range change {
		c(&cfg)
	}
	s, err := postgres.NewSource(cfg)
	require.NoError(j.t, err)
	require.NoError(j.t, s.CreateTables(etcdtest.Context(j.t)))
	return s
}

// execute writes the effect of a job.
func (j *jobs) execute(ctx context.Context, item automation.Item[int]) error {
	_, err := postgres.Tx(ctx).Exec(ctx, "insert into "+j.effects+" values ($1)", item.Value)
	return err
}

// quick has short pauses.
func quick(cfg automation.Config[int]) automation.Config[int] {
	cfg.PollInterval = 10 * time.Millisecond
	cfg.Backoff.Min, cfg.Backoff.Max = time.Millisecond, 20*time.Millisecond
	cfg.CountInterval = 20 * time.Millisecond
	return cfg
}

// run starts an automation. end stops it and waits for it. Its name is that of the table.
func (j *jobs) run(cfg automation.Config[int]) (a *automation.Automation[int], end func()) {
	j.t.Helper()
	cfg.Name = j.table
	a, err := automation.New(quick(cfg))
	require.NoError(j.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(j.t, a.Run(ctx)) })
	end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	j.t.Cleanup(end)
	return a, end
}

func (j *jobs) eventually(is func() bool, what string) {
	j.t.Helper()
	require.Eventually(j.t, is, patience, 5*time.Millisecond, what)
}
