//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/automation/postgres"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

var errOops = errors.New("oops")

// One server serves all parts.
func TestPostgres(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	pool, err := pgxpool.New(context.Background(), db.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := &testBed{server: db, pool: pool}
	for name, part := range map[string]func(*testing.T){
		"shared by processes":     s.shared,
		"failures and parking":    s.failures,
		"a stale claim":           s.stale,
		"a row that is broken":    s.broken,
		"a mark that fails":       s.unmarked,
		"deferred constraints":    s.deferred,
		"an idle transaction":     s.idle,
		"a lost connection":       s.lost,
		"cancellation":            s.cancelled,
		"deleted when done":       s.deleted,
		"a missing table":         s.missing,
		"no transaction":          s.noTx,
		"an old failure":          s.oldFailure,
		"simple protocol":         s.simple,
		"concurrent CreateTables": s.creations,
		"a job that parks later":  s.parkedLater,
	} {
		t.Run(name, part)
	}
}

// Two processes execute each job once, and none waits for a slow one.
func (s *testBed) shared(t *testing.T) {
	j, release := s.newJobs(t, 200), make(chan struct{})
	execute := func(ctx context.Context, item automation.Item[int]) error {
		if item.Value == 1 {
			<-release
		}
		return j.execute(ctx, item)
	}
	a, _ := j.run(automation.Config[int]{Source: j.source(), Execute: execute, Concurrency: 4})
	b, _ := j.run(automation.Config[int]{Source: j.source(), Execute: execute, Concurrency: 4})
	j.eventually(func() bool { return j.left() == 1 }, "all but the slow one")
	j.eventually(func() bool { return a.Status().Due == 1 && b.Status().Due == 1 }, "it is counted")
	close(release)
	j.eventually(func() bool { return j.left() == 0 && a.Status().Done+b.Status().Done == 200 }, "all")
	j.requireEffects(200)
	j.eventually(func() bool { return a.Status().Counts == automation.Counts{} }, "nothing is left to count")
}

// Attempts, pauses and parked items are kept for all processes, and what an attempt wrote is undone.
func (s *testBed) failures(t *testing.T) {
	j := s.newJobs(t, 20)
	var attempts [21]atomic.Int64
	parked := make(chan error, 10)
	cfg := automation.Config[int]{Source: j.source(), MaxAttempts: 4,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			n := attempts[item.Value].Add(1)
			if err := j.execute(ctx, item); err != nil {
				return err
			}
			switch {
			case item.Value == 3:
				return errOops
			case item.Value == 4 && n < 3:
				panic(errOops)
			case item.Value == 5:
				_, err := postgres.Tx(ctx).Exec(ctx, "select 1/0")
				return errors.Join(processor.ErrPoison, err)
			case item.Value == 6 && n < 9:
				return processor.ErrUnavailable
			}
			return nil
		},
		OnPark: func(ctx context.Context, item automation.Item[int], err error) error {
			parked <- err
			_, dberr := postgres.Tx(ctx).Exec(ctx, "insert into "+j.effects+" values ($1)", -item.Value)
			return dberr
		}}
	a, end := j.run(cfg)
	cfg.Source = j.source()
	b, _ := j.run(cfg)
	j.eventually(func() bool {
		return j.left() == 2 && a.Status().Parked == 2 && b.Status().Parked == 2
	}, "two are parked")
	end()
	for i, want := range map[int]int64{3: 4, 4: 3, 5: 1, 6: 9, 7: 1} {
		require.EqualValues(t, want, attempts[i].Load(), "job %d", i)
	}
	require.Len(t, parked, 2)
	require.Equal(t, 18, j.number("select count(*) from "+j.effects+" where n > 0"))
	require.Equal(t, 2, j.number("select count(*) from "+j.effects+" where n in (-3, -5)"))
	require.EqualValues(t, 2, a.Status().GivenUp+b.Status().GivenUp)
	j.eventually(func() bool { return b.Status().Waiting == 0 }, "items that were executed have no failures any more")

	source, ctx := j.source(), etcdtest.Context(t)
	all, err := source.Parked(ctx, j.table, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	byKey := map[string]postgres.ParkedItem{}
	for _, p := range all {
		require.WithinDuration(t, time.Now(), p.Time, time.Minute)
		byKey[p.Key] = p
	}
	require.Equal(t, 4, byKey["3"].Attempts)
	require.Equal(t, "oops", byKey["3"].Error)
	require.Contains(t, byKey["5"].Error, "division by zero")
	some, err := source.Parked(ctx, j.table, 1)
	require.NoError(t, err)
	require.Len(t, some, 1)
	require.NoError(t, source.Retry(ctx, j.table, "3"))
	require.ErrorIs(t, source.Retry(ctx, j.table, "99"), postgres.ErrNotFound)
	j.eventually(func() bool { return attempts[3].Load() == 8 }, "it is due again, with all its attempts")
}

// A row that another process did between the query and the lock is not executed again, although the lock is granted.
// Here the condition is about another table, so PostgreSQL does not notice by itself.
func (s *testBed) stale(t *testing.T) {
	j, ctx := s.newJobs(t, 1), etcdtest.Context(t)
	about := func(c *postgres.Config[int]) {
		c.Where = "not exists (select from " + j.effects + " e where e.n = t.n) and " +
			"pg_advisory_xact_lock_shared(77) is not null"
		c.Done = "select from " + j.table + " where id = $1"
	}
	blocker, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = blocker.Rollback(context.Background()) }()
	_, err = blocker.Exec(ctx, "select pg_advisory_xact_lock(77)")
	require.NoError(t, err)
	executed := make(chan bool, 10)
	a, _ := j.run(automation.Config[int]{Source: j.source(about),
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			executed <- true
			return j.execute(ctx, item)
		}})
	// The claim has its snapshot and waits. Meanwhile the job takes effect.
	j.eventually(func() bool {
		return j.number("select count(*) from pg_locks where locktype = 'advisory' and not granted") > 0
	}, "the claim waits")
	j.exec("insert into " + j.effects + " values (1)")
	require.NoError(t, blocker.Commit(ctx))
	j.eventually(func() bool { return a.Status().Due == 0 }, "it is no longer due")
	require.Empty(t, executed)
}

// A row that cannot be read fails alone.
func (s *testBed) broken(t *testing.T) {
	j := s.newJobs(t, 5)
	j.exec("update " + j.table + " set n = null where id = 1") // cannot be scanned
	j.exec("update " + j.table + " set n = 0 where id = 2")    // cannot be selected
	a, _ := j.run(automation.Config[int]{Source: j.source(func(c *postgres.Config[int]) { c.Select = "n / n * n" }),
		Execute: j.execute, MaxAttempts: 2})
	j.eventually(func() bool { return j.left() == 2 && a.Status().Parked == 2 }, "the others are executed")
	j.requireEffects(3)
	require.Zero(t, a.Status().Failures, "the source works")
}

// A mark that leaves the row due, or fails, counts against the item, which would be executed without end. The writes of
// Execute are undone.
func (s *testBed) unmarked(t *testing.T) {
	j := s.newJobs(t, 3)
	a, _ := j.run(automation.Config[int]{Source: j.source(func(c *postgres.Config[int]) {
		c.Done = "update " + j.table + " set done = case id when 1 then null else now() end, n = n / (id - 2) " +
			"where id = $1"
	}), Execute: j.execute, MaxAttempts: 2})
	j.eventually(func() bool { return j.left() == 2 && a.Status().Parked == 2 }, "the other one is executed")
	j.requireEffects(1)
	parked, err := j.source().Parked(etcdtest.Context(t), j.table, 10)
	require.NoError(t, err)
	errs := map[string]string{}
	for _, p := range parked {
		errs[p.Key] = p.Error
	}
	require.Contains(t, errs["1"], "Config.Done has left the row due")
	require.Contains(t, errs["2"], "division by zero")
	require.Zero(t, a.Status().Failures, "the source works")
}

// A constraint that is checked at the commit counts against the item.
func (s *testBed) deferred(t *testing.T) {
	j := s.newJobs(t, 3)
	j.exec("insert into " + j.effects + " values (2)")
	a, _ := j.run(automation.Config[int]{Source: j.source(), Execute: j.execute, MaxAttempts: 2})
	j.eventually(func() bool { return j.left() == 1 && a.Status().Parked == 1 }, "the others are executed")
	require.Contains(t, a.Status().LastError, "duplicate key")
	j.requireEffects(3)
}

// An executor that leaves its transaction idle for too long has failed. It is parked after its last attempt.
func (s *testBed) idle(t *testing.T) {
	j := s.newJobs(t, 3)
	parked := make(chan error, 10)
	a, _ := j.run(automation.Config[int]{Source: j.source(func(c *postgres.Config[int]) {
		c.IdleTimeout = 2 * time.Second
	}), MaxAttempts: 2, Concurrency: 2, Execute: func(ctx context.Context, item automation.Item[int]) error {
		if item.Value == 1 {
			conn := postgres.Tx(ctx).Conn().PgConn().PID()
			require.Eventually(t, func() bool {
				var alive bool
				err := s.pool.QueryRow(ctx, "select exists(select from pg_stat_activity where pid = $1)", conn).Scan(&alive)
				return err == nil && !alive
			}, patience, 5*time.Millisecond)
		}
		return j.execute(ctx, item)
	}, OnPark: func(_ context.Context, _ automation.Item[int], err error) error {
		parked <- err
		return nil
	}})
	j.eventually(func() bool { return j.left() == 1 && a.Status().Parked == 1 }, "it is parked")
	j.requireEffects(2)
	require.NotEmpty(t, parked)
}

// A connection that is lost in the middle leaves no effect, and does not count as an attempt.
func (s *testBed) lost(t *testing.T) {
	j := s.newJobs(t, 3)
	var times atomic.Int64
	a, _ := j.run(automation.Config[int]{Source: j.source(), MaxAttempts: 2,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			if err := j.execute(ctx, item); err != nil {
				return err
			}
			if item.Value == 2 && times.Add(1) < 5 {
				_, err := s.pool.Exec(ctx, "select pg_terminate_backend($1, 10000)", postgres.Tx(ctx).Conn().PgConn().PID())
				return err
			}
			return nil
		}})
	j.eventually(func() bool { return j.left() == 0 }, "all are done")
	j.requireEffects(3)
	require.Zero(t, a.Status().GivenUp)
	require.EqualValues(t, 5, times.Load())
}

// An automation that ends in the middle of a job leaves it to others, with nothing stored.
func (s *testBed) cancelled(t *testing.T) {
	j := s.newJobs(t, 2)
	begun := make(chan struct{}, 2)
	a, end := j.run(automation.Config[int]{Source: j.source(), Concurrency: 2,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			err := j.execute(ctx, item)
			begun <- struct{}{}
			<-ctx.Done()
			if item.Value == 2 {
				return err // it is done in spite of the end
			}
			return context.Cause(ctx)
		}})
	<-begun
	<-begun
	end()
	require.Equal(t, 1, j.left())
	require.Equal(t, 1, j.number("select n from "+j.table+" where done is null"))
	j.requireEffects(1)
	require.Zero(t, a.Status().Retries)
	require.EqualValues(t, 1, a.Status().Done)
	require.False(t, a.Status().Active)
}

// A job may be deleted when it is done, by its executor or by Done, and its key may be a text.
func (s *testBed) deleted(t *testing.T) {
	j := s.newJobs(t, 6)
	j.exec("alter table " + j.table + " alter id type text")
	_, _ = j.run(automation.Config[int]{Source: j.source(func(c *postgres.Config[int]) {
		c.Done = "delete from " + j.table + " where id = $1"
		c.OrderBy = ""
	}), Concurrency: 2, Execute: func(ctx context.Context, item automation.Item[int]) error {
		if item.Value%2 == 0 {
			if _, err := postgres.Tx(ctx).Exec(ctx, "delete from "+j.table+" where id = $1", item.Key); err != nil {
				return err
			}
		}
		return j.execute(ctx, item)
	}})
	j.eventually(func() bool { return j.number("select count(*) from "+j.table) == 0 }, "all are done")
	j.requireEffects(6)
}

// A table that is missing is named, with the remedy, and the automation goes on when it is there.
func (s *testBed) missing(t *testing.T) {
	j, ctx := s.newJobs(t, 2), etcdtest.Context(t)
	source, err := postgres.NewSource(func() postgres.Config[int] {
		cfg := jobsConfig(s.pool, j.table)
		cfg.Failures = "failures_of_" + j.table
		return cfg
	}())
	require.NoError(t, err)
	a, _ := j.run(automation.Config[int]{Source: source, Execute: j.execute})
	j.eventually(func() bool { return a.Status().Failures > 2 }, "it is tried on")
	require.Contains(t, a.Status().LastError, "CreateTables")
	_, err = source.Parked(ctx, "x", 1)
	require.ErrorContains(t, err, "CreateTables")
	require.NoError(t, source.CreateTables(ctx))
	j.eventually(func() bool { return j.left() == 0 }, "it goes on")
}

func (s *testBed) creations(t *testing.T) {
	j := s.newJobs(t, 0)
	source := j.source(func(c *postgres.Config[int]) { c.Failures = "other_failures" })
	errs := make(chan error, 4)
	for range 4 {
		go func() { errs <- source.CreateTables(etcdtest.Context(t)) }()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
}

func (s *testBed) noTx(t *testing.T) {
	require.PanicsWithError(t, "what the handler needs is not available: postgres.Tx: there is no transaction in this "+
		"context; give it that of Execute or OnPark, of an automation whose Source is a *postgres.Source",
		func() { postgres.Tx(t.Context()) })
}

// The failures of items that left the list otherwise are forgotten after a day, parked ones are not.
func (s *testBed) oldFailure(t *testing.T) {
	j := s.newJobs(t, 1)
	source := j.source()
	insert := "insert into goverse_automation_failures values ($1, $2, 1, 1, now() - $3::interval, 'x', $4)"
	j.exec(insert, j.table, "old", "2 days", nil)
	j.exec(insert, j.table, "recent", "2 hours", nil)
	j.exec(insert, j.table, "parked", "2 days", time.Now())
	j.exec(insert, "another", j.table, "2 days", nil)
	_, _ = j.run(automation.Config[int]{Source: source, MaxAttempts: 1,
		Execute: func(context.Context, automation.Item[int]) error { return errOops }})
	j.eventually(func() bool {
		return j.number("select count(*) from goverse_automation_failures where name = '"+j.table+"' and key = '1'") == 1
	}, "it is parked")
	require.Zero(t, j.number("select count(*) from goverse_automation_failures where key = 'old'"))
	require.Equal(t, 2, j.number("select count(*) from goverse_automation_failures where name = '"+j.table+
		"' and key in ('recent', 'parked')"))
	require.Equal(t, 1, j.number("select count(*) from goverse_automation_failures where key = '"+j.table+"'"))
}

// A pooler that pools transactions needs another protocol.
func (s *testBed) simple(t *testing.T) {
	for _, mode := range []string{"simple_protocol", "exec", "cache_describe"} {
		j := s.newJobs(t, 5)
		pool := j.connect(mode)
		var failed atomic.Bool
		a, end := j.run(automation.Config[int]{Source: j.source(func(c *postgres.Config[int]) { c.DB = pool }),
			Execute: func(ctx context.Context, item automation.Item[int]) error {
				if item.Value == 1 && failed.CompareAndSwap(false, true) {
					return errOops
				}
				return j.execute(ctx, item)
			}})
		j.eventually(func() bool { return j.left() == 0 }, mode)
		end()
		j.requireEffects(5)
		require.EqualValues(t, 1, a.Status().Retries, a.Status().LastError)
		require.Zero(t, a.Status().Failures, a.Status().LastError)
	}
}

func TestConfig(t *testing.T) {
	pool, err := pgxpool.New(context.Background(), "postgres://127.0.0.1:1/none")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	good := jobsConfig(pool, "jobs")
	require.NoError(t, good.Validate())
	for what, change := range map[string]func(*postgres.Config[int]){
		"DB":             func(c *postgres.Config[int]) { c.DB = nil },
		"Table":          func(c *postgres.Config[int]) { c.Table = "a; drop" },
		"Key":            func(c *postgres.Config[int]) { c.Key = "" },
		"Failures":       func(c *postgres.Config[int]) { c.Failures = "A" },
		"Where":          func(c *postgres.Config[int]) { c.Where = "" },
		"Select":         func(c *postgres.Config[int]) { c.Select = "" },
		"Done":           func(c *postgres.Config[int]) { c.Done = "" },
		"Scan":           func(c *postgres.Config[int]) { c.Scan = pgx.RowToFunc[int](nil) },
		"RequestTimeout": func(c *postgres.Config[int]) { c.RequestTimeout = -1 },
	} {
		bad := good
		change(&bad)
		_, err := postgres.NewSource(bad)
		require.ErrorIs(t, err, automation.ErrBadConfig)
		require.ErrorContains(t, err, what)
	}
}
