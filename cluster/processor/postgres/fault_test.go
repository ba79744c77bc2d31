//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// careless is a checkpoint without the check of the token.
type careless struct {
	processor.Checkpoint
	table string
}

func (c careless) Advance(ctx context.Context, name string, at processor.Mark,
	work func(context.Context) (processor.Progress, error)) (processor.Mark, error) {
	return c.Checkpoint.Advance(ctx, name, at, func(ctx context.Context) (processor.Progress, error) {
		p, err := work(ctx)
		if err == nil {
			_, err = postgres.Tx(ctx).Exec(ctx, "update "+c.table+" set token = $2, version = $3 where name = $1", name,
				at.Token, at.Version)
		}
		return p, err
	})
}

// paused makes a process stand still in a handler until another process has taken over and done the same work.
// It returns the events that took effect.
func (s *testBed) paused(t *testing.T, plant func(c processor.Checkpoint, table string) processor.Checkpoint) []int {
	handler, all := s.effects(t)
	var table string
	checkpoint := s.checkpoints(t, func(c *postgres.Config) { table = c.Table })
	asleep, awake := make(chan struct{}), make(chan struct{})
	// A process that stands still does not notice that its lead is over.
	unaware, end := context.WithCancel(context.Background())
	defer end()
	never := processor.LockFunc(func(_ context.Context, fn func(context.Context,
		int64) error) error {
		return fn(unaware, 1)
	})
	first, err := processor.New(processor.Config[int]{Name: "views", Source: &numbers{last: 5},
		Checkpoint: plant(checkpoint, table), LeaderLock: never,
		Backoff: processor.Backoff{Min: time.Hour}, Handler: func(ctx context.Context, e processor.Event[int]) error {
			if e.Value == 3 {
				close(asleep)
				<-awake
			}
			return handler(ctx, e)
		}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	<-asleep
	second, endSecond := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 5}, Checkpoint: checkpoint,
		Handler: handler,
		LeaderLock: processor.LockFunc(func(ctx context.Context, fn func(context.Context,
			int64) error) error {
			return fn(ctx, 2)
		})})
	require.Eventually(t, func() bool { return second.Status().Position == "5" }, patience, time.Millisecond,
		"who stands still holds up nobody")
	endSecond()
	close(awake)
	require.Eventually(t, func() bool { s := first.Status(); return s.Batches > 0 || s.Failures > 0 }, patience,
		time.Millisecond)
	cancel()
	end()
	require.NoError(t, <-ended)
	return all()
}

// A leader that was paused does nothing, even if it continues without noticing that another has taken over.
// Without the check of the token the test fails.
func (s *testBed) pausedLeader(t *testing.T) {
	require.Equal(t, upTo(5), s.paused(t, func(c processor.Checkpoint, _ string) processor.Checkpoint { return c }))
	require.Len(t, s.paused(t, func(c processor.Checkpoint,
		table string) processor.Checkpoint {
		return careless{c, table}
	}), 10, "each event twice")
}

// An event that only the commit refuses is found, one by one, and parked. So is an event with a failed
// statement that the handler did not report.
func (s *testBed) refused(t *testing.T) {
	handler, all := s.effects(t)
	ctx := etcdtest.Context(t)
	_, err := s.pool.Exec(ctx, `create table parents (id int primary key);
		create table children (parent int references parents deferrable initially deferred);
		insert into parents select generate_series(1, 20) where false`)
	require.NoError(t, err)
	_, err = s.pool.Exec(ctx, "insert into parents select i from generate_series(1, 20) i where i <> 7")
	require.NoError(t, err)
	checkpoint := s.checkpoints(t)
	var parked []int
	p, end := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 20}, Checkpoint: checkpoint,
		MaxAttempts: 2,
		Backoff:     processor.Backoff{Min: time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			if e.Value == 13 {
				_, _ = postgres.Tx(ctx).Exec(ctx, "select 1/0")
				return nil
			}
			if _, err := postgres.Tx(ctx).Exec(ctx, "insert into children values ($1)", e.Value); err != nil {
				return err
			}
			return handler(ctx, e)
		},
		OnPark: func(ctx context.Context, e processor.Event[int], err error) error {
			parked = append(parked, e.Value)
			return handler(ctx, processor.Event[int]{Value: -e.Value})
		}})
	require.Eventually(t, func() bool { return p.Status().Position == "20" }, patience, time.Millisecond)
	end()
	want := upTo(20)
	want[6], want[12] = -7, -13
	require.Equal(t, want, all(), "the hook's writes are in the same transaction")
	require.Equal(t, []int{7, 13}, parked)
	records, err := checkpoint.Parked(ctx, "views")
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.Equal(t, 2, records[0].Attempts)
	require.Contains(t, records[0].Error, "children_parent_fkey")
	require.WithinDuration(t, time.Now(), records[1].Time, patience)
}

// An event can be parked even if its error has text that PostgreSQL cannot store.
func (s *testBed) badText(t *testing.T) {
	checkpoint := s.checkpoints(t)
	p, _ := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 1}, Checkpoint: checkpoint, MaxAttempts: 1,
		Handler: func(context.Context, processor.Event[int]) error {
			return errors.New("a\x00b\xff" + strings.Repeat("ü", 1<<20))
		}})
	require.Eventually(t, func() bool { return p.Status().Parked == 1 }, patience, time.Millisecond)
}

// An idle transaction is ended together with its locks, and the event is tried again.
func (s *testBed) idle(t *testing.T) {
	checkpoint := s.checkpoints(t, func(c *postgres.Config) { c.IdleTimeout = 100 * time.Millisecond })
	handler, all := s.effects(t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() {
		close(inside)
		<-goOn
	})
	_, err := s.pool.Exec(etcdtest.Context(t), "create table idled (n int)")
	require.NoError(t, err)
	p, _ := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 2}, Checkpoint: checkpoint,
		Backoff: processor.Backoff{Min: time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			if _, err := postgres.Tx(ctx).Exec(ctx, "lock table idled"); err != nil {
				return err
			}
			first()
			return handler(ctx, e)
		}})
	<-inside
	_, err = s.pool.Exec(etcdtest.Context(t), "lock table idled; insert into idled values (1)")
	require.NoError(t, err, "the lock was ended")
	close(goOn)
	require.Eventually(t, func() bool { return p.Status().Position == "2" }, patience, time.Millisecond)
	require.Equal(t, upTo(2), all())
}

// A batch that leaves its transaction idle for too long is tried with fewer events. A single event that does so
// is parked.
func (s *testBed) slow(t *testing.T) {
	checkpoint := s.checkpoints(t, func(c *postgres.Config) { c.IdleTimeout = 100 * time.Millisecond })
	handler, all := s.effects(t)
	gone := func(pid uint32) {
		for n := 1; n > 0; {
			assert.NoError(t, s.pool.QueryRow(etcdtest.Context(t), "select count(*) from pg_stat_activity where pid = $1",
				pid).Scan(&n))
		}
	}
	var last pgx.Tx
	var parked []int
	p, end := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 9}, Checkpoint: checkpoint,
		MaxAttempts: 2,
		Backoff:     processor.Backoff{Min: time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			tx := postgres.Tx(ctx)
			if tx == last || e.Value == 6 {
				gone(tx.Conn().PgConn().PID())
			}
			last = tx
			if e.Value%2 == 0 { // a handler that does not report the error is detected by the checkpoint
				return nil
			}
			return handler(ctx, e)
		},
		OnPark: func(_ context.Context, e processor.Event[int], err error) error {
			parked = append(parked, e.Value)
			return nil
		}})
	require.Eventually(t, func() bool { return p.Status().Position == "9" }, patience, time.Millisecond)
	end()
	require.Equal(t, []int{1, 3, 5, 7, 9}, all())
	require.Equal(t, []int{6}, parked)
}

// Problems of the server, and locks of others, do not count against an event. A statement that takes longer
// than the handler allowed it does.
func (s *testBed) inHandler(t *testing.T) {
	ctx := etcdtest.Context(t)
	_, err := s.pool.Exec(ctx, "create table guarded (n int)")
	require.NoError(t, err)
	other, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = other.Rollback(context.Background()) }() // has no effect if it was rolled back before
	_, err = other.Exec(ctx, "lock table guarded")
	require.NoError(t, err)
	checkpoint := s.checkpoints(t)
	handler, all := s.effects(t)
	var tries, kills atomic.Int32
	p, end := run(t, processor.Config[int]{Name: "views", Source: &numbers{last: 4}, Checkpoint: checkpoint,
		MaxAttempts: 1,
		Backoff:     processor.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond},
		Handler: func(ctx context.Context, e processor.Event[int]) error {
			tx := postgres.Tx(ctx)
			switch {
			case e.Value == 1:
				tries.Add(1)
				if _, err := tx.Exec(ctx, "lock table guarded nowait"); err != nil {
					return err
				}
			case e.Value == 2 && kills.Add(1) < 5:
				_, err := tx.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
				return err
			case e.Value == 3 && kills.Add(1) < 10:
				_ = tx.Conn().Close(ctx) // as a network failure does
			case e.Value == 4:
				little, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				defer cancel()
				_, err := tx.Exec(little, "select pg_sleep(60)")
				return err
			}
			return handler(ctx, e)
		}})
	require.Eventually(t, func() bool { return tries.Load() > 3 }, patience, time.Millisecond)
	require.NoError(t, other.Rollback(ctx))
	require.Eventually(t, func() bool { return p.Status().Position == "4" }, patience, time.Millisecond)
	end()
	require.Equal(t, upTo(3), all())
	require.EqualValues(t, 1, p.Status().Parked)
}

// A database that does not answer blocks no processor forever. A handler may take its time.
func (s *testBed) silent(t *testing.T) {
	ctx := etcdtest.Context(t)
	const timeout = 300 * time.Millisecond
	var table string
	checkpoint := s.checkpoints(t, func(c *postgres.Config) { c.RequestTimeout, table = timeout, c.Table })
	m, err := checkpoint.Claim(ctx, "it", 1)
	require.NoError(t, err)
	m, err = checkpoint.Advance(ctx, "it", m, func(ctx context.Context) (processor.Progress, error) {
		_, err := postgres.Tx(ctx).Exec(ctx, "select pg_sleep($1)", (2 * timeout).Seconds())
		return processor.Progress{Position: "1"}, err
	})
	require.NoError(t, err)
	other, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = other.Rollback(context.Background()) }() // has no effect if it was rolled back before
	_, err = other.Exec(ctx, "lock table "+table)
	require.NoError(t, err)
	_, err = checkpoint.Claim(ctx, "it", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the claim")
	_, err = checkpoint.Advance(ctx, "it", m, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: "2"}, nil
	})
	require.ErrorIs(t, err, context.DeadlineExceeded, "the update")
	require.NoError(t, other.Rollback(ctx))

	// A pool with no connection left.
	cfg, err := pgxpool.ParseConfig(s.server.URL())
	require.NoError(t, err)
	cfg.MaxConns = 1
	small, err := pgxpool.NewWithConfig(ctx, cfg)
	require.NoError(t, err)
	defer small.Close()
	held, err := small.Acquire(ctx)
	require.NoError(t, err)
	defer held.Release()
	checkpoint = s.checkpoints(t, func(c *postgres.Config) { c.RequestTimeout = timeout })
	starved, err := postgres.New(postgres.Config{DB: small, RequestTimeout: timeout})
	require.NoError(t, err)
	_, err = starved.Advance(ctx, "it", m, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the beginning")

	// A commit that takes too long.
	_, err = s.pool.Exec(ctx, `create function slowly() returns trigger language plpgsql
			as $$ begin perform pg_sleep(60); return null; end $$;
		create table slow_commits (n int);
		create constraint trigger slow after insert on slow_commits deferrable initially deferred
			for each row execute function slowly()`)
	require.NoError(t, err)
	m, err = checkpoint.Claim(ctx, "it", 1)
	require.NoError(t, err)
	_, err = checkpoint.Advance(ctx, "it", m, func(ctx context.Context) (processor.Progress, error) {
		_, err := postgres.Tx(ctx).Exec(ctx, "insert into slow_commits values (1)")
		return processor.Progress{Position: "2"}, err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded, "the commit")
}

// A database that is away for a while costs no event.
func (s *testBed) away(t *testing.T) {
	checkpoint := s.checkpoints(t)
	insert, all := s.effects(t)
	killed := make(chan struct{})
	handler := func(ctx context.Context, e processor.Event[int]) error {
		if e.Value == 200 { // the end is not reached before the outage
			select {
			case <-killed:
			case <-ctx.Done():
			}
		}
		return insert(ctx, e)
	}
	source := &numbers{last: 400}
	p, _ := run(t, processor.Config[int]{Name: "views", Source: source, Checkpoint: checkpoint, BatchSize: 10,
		MaxAttempts: 1,
		Backoff:     processor.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond}, Handler: handler})
	require.Eventually(t, func() bool { return p.Status().Batches > 3 }, patience, time.Microsecond)
	s.server.Kill()
	close(killed)
	assert.Eventually(t, func() bool { return p.Status().Failures+p.Status().Retries > 3 }, patience, time.Millisecond)
	require.NoError(t, s.server.Restart())
	require.Eventually(t, func() bool { return p.Status().Position == "400" }, patience, time.Millisecond)
	s.pool.Reset() // a connection that was not used since the kill would fail once more
	require.Equal(t, upTo(400), all())
	require.Zero(t, p.Status().Parked)
}

func (s *testBed) misused(t *testing.T) {
	// A mistake in the program parks nothing.
	func() {
		defer func() {
			err, _ := recover().(error)
			require.ErrorIs(t, err, processor.ErrUnavailable)
			require.ErrorContains(t, err, "give it the handler's, of a processor whose Checkpoint is a *postgres.Checkpoint")
		}()
		postgres.Tx(context.Background())
	}()
	_, err := postgres.New(postgres.Config{})
	require.ErrorIs(t, err, processor.ErrBadConfig)
	for _, table := range []string{"a b", "a;drop", "A", "a.b.c", strings.Repeat("x", 57), "1a", "."} {
		_, err := postgres.New(postgres.Config{DB: s.pool, Table: table})
		require.ErrorIs(t, err, postgres.ErrBadTable, table)
	}
	c, err := postgres.New(postgres.Config{DB: s.pool, Table: "forgotten"})
	require.NoError(t, err)
	_, err = c.Claim(etcdtest.Context(t), "it", 1)
	require.ErrorContains(t, err, "make the tables with CreateTables")
	// A name that is an SQL keyword, and tables created within a transaction of the caller's.
	conn, err := pgx.Connect(etcdtest.Context(t), s.server.URL())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(etcdtest.Context(t))
	require.NoError(t, err)
	for _, table := range []string{"order", "public.user"} {
		c, err := postgres.New(postgres.Config{DB: conn, Table: table})
		require.NoError(t, err)
		require.NoError(t, c.CreateTables(etcdtest.Context(t)))
		_, err = c.Claim(etcdtest.Context(t), "it", 1)
		require.NoError(t, err)
		require.NoError(t, c.Rewind(etcdtest.Context(t), "it", "7"))
		_, err = c.Parked(etcdtest.Context(t), "it")
		require.NoError(t, err)
	}
	require.NoError(t, tx.Rollback(etcdtest.Context(t)))
	var n int
	require.NoError(t, conn.QueryRow(etcdtest.Context(t),
		"select count(*) from pg_tables where tablename in ('order', 'user')").Scan(&n))
	require.Zero(t, n)
	// Many processes can create the tables at once.
	c, err = postgres.New(postgres.Config{DB: s.pool})
	require.NoError(t, err)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = c.CreateTables(context.Background()) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}
