//go:build unix

package pgsession_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	autopg "github.com/goverse/goverse/cluster/automation/postgres"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	oncepg "github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	procpg "github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const poolTables = `
	create table events (xid xid8 not null default pg_current_xact_id(), id bigserial, body jsonb not null,
		primary key (xid, id));
	insert into events (body) select to_jsonb(i) from generate_series(1, 200) i;
	create table jobs (id bigint primary key, done bool not null default false);
	insert into jobs (id) select generate_series(1, 200);
	create table effects (kind text, name text, primary key (kind, name));
	create table counters (name text primary key, n int);
	insert into counters values ('0', 0), ('1', 0), ('2', 0)`

// Fifty operations of one process share a pool of five connections: ten processors with source and checkpoint in the
// database, ten workers of an automation, fifteen effects that write with the pool, and fifteen callers that change
// rows under a lock's fence. None waits for another forever, or until a time-out.
func TestPoolOfFiveConnections(t *testing.T) {
	const (
		processors, workers, effects, callers = 10, 10, 15, 15
		events, jobs, rounds                  = 200, 200, 10
	)
	db := pgserver.StartForTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cfg, err := pgxpool.ParseConfig(db.URL())
	require.NoError(t, err)
	cfg.MaxConns = 5
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(ctx, poolTables)
	require.NoError(t, err)
	session, err := pgsession.Open(ctx, pgsession.Config{URL: db.URL(), Deadline: 10 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close(ctx)) }()
	locks := lockpg.New(session)
	checkpoints, err := procpg.New(procpg.Config{DB: pool})
	require.NoError(t, err)
	require.NoError(t, checkpoints.CreateTables(ctx))
	table, err := procpg.NewSource(procpg.SourceConfig{DB: pool, Table: "events"})
	require.NoError(t, err)
	list, err := autopg.NewSource(autopg.Config[int64]{DB: pool, Table: "jobs", Key: "id", Where: "not done",
		OrderBy: "id", Select: "id", Scan: pgx.RowTo[int64], Done: "update jobs set done = true where id = $1"})
	require.NoError(t, err)
	require.NoError(t, list.CreateTables(ctx))
	once, err := oncepg.New(session, oncepg.Config{DB: pool})
	require.NoError(t, err)
	require.NoError(t, once.CreateTable(ctx))
	const insert = "insert into effects values ($1, $2)"

	began := time.Now()
	running, stop := context.WithCancel(ctx)
	var lasting, brief sync.WaitGroup
	defer lasting.Wait()
	defer stop()
	var group processor.Group
	for i := range processors {
		name := fmt.Sprint("view ", i)
		p, err := processor.New(processor.Config[[]byte]{Name: name, Source: table, Checkpoint: checkpoints,
			LeaderLock: processor.Lock(locks, name), BatchSize: 10, PollInterval: time.Millisecond,
			CheckInterval: 10 * time.Millisecond, LagInterval: 10 * time.Millisecond,
			Handler: func(ctx context.Context, e processor.Event[[]byte]) error {
				_, err := procpg.Tx(ctx).Exec(ctx, insert, name, string(e.Value))
				return err
			}})
		require.NoError(t, err)
		group = append(group, p)
	}
	worked, err := automation.New(automation.Config[int64]{Name: "jobs", Source: list, Concurrency: workers,
		PollInterval: time.Millisecond, Execute: func(ctx context.Context, item automation.Item[int64]) error {
			_, err := autopg.Tx(ctx).Exec(ctx, insert, "job", strconv.FormatInt(item.Value, 10))
			return err
		}})
	require.NoError(t, err)
	failed := make(chan error, 2+effects+callers)
	lasting.Go(func() { failed <- group.Run(running) })
	lasting.Go(func() { failed <- worked.Run(running) })
	for i := range effects {
		brief.Go(func() {
			for n := range rounds {
				name := fmt.Sprint(i, "/", n)
				_, err := once.Once(ctx, name, func(ctx context.Context, _ int64) ([]byte, error) {
					_, err := pool.Exec(ctx, insert, "once", name)
					return nil, err
				})
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for i := range callers {
		brief.Go(func() {
			for range rounds {
				if err := countFenced(ctx, locks, pool, strconv.Itoa(i%3)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	brief.Wait()
	number := func(sql string, args ...any) (n int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(ctx, sql, args...).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool {
		return number("select count(*) from effects") == processors*events+jobs+effects*rounds
	}, 5*patience, time.Millisecond)
	took := time.Since(began)
	require.Equal(t, callers*rounds, number("select sum(n) from counters"))
	require.Zero(t, number("select count(*) from jobs where not done"))
	for _, s := range group.Status() {
		require.Zero(t, s.Failures, s.LastError)
	}
	require.Zero(t, worked.Status().Failures)
	require.EqualValues(t, 5, pool.Stat().MaxConns())
	stop()
	lasting.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	t.Logf("all done after %v", took.Round(time.Millisecond))
}

// countFenced increments a counter in a transaction that a lock fences.
func countFenced(ctx context.Context, locks *lockpg.Locks, pool *pgxpool.Pool, name string) error {
	held, err := locks.Acquire(ctx, name)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := lockpg.Fence(ctx, tx, held); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "update counters set n = n + 1 where name = $1", name)
		return err
	})
	return errors.Join(err, held.Release(ctx))
}
