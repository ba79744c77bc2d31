//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
)

var errOops = errors.New("oops")

// rows creates a table of the caller's own.
func (d database) rows(t *testing.T) string {
	name := fmt.Sprintf("mine_%d", d.last.Add(1))
	d.exec(t, "create table "+name+" (n bigint)")
	return name
}

func (d database) inTx(t *testing.T) {
	store, mine := d.store(t), d.rows(t)
	s := d.load(t, store, 1)
	require.NoError(t, store.InTx(d.ctx, s, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into "+mine+" values (1)"); err != nil {
			return err
		}
		s.Value().Value = 7
		if err := s.Save(ctx); err != nil {
			return err
		}
		require.Zero(t, d.count(t, mine), "not yet")
		require.ErrorIs(t, s.Save(d.ctx), state.ErrStale, "with its context alone")
		s.Value().Value = 8
		return s.Save(ctx)
	}))
	require.Equal(t, 1, d.count(t, mine))
	s.Value().Value++
	require.NoError(t, s.Save(d.ctx))
	require.EqualValues(t, 9, d.load(t, store, 1).Value().Value)
	require.ErrorIs(t, s.Save(d.ctx), state.ErrConflict, "it was loaded")
	require.ErrorIs(t, store.InTx(d.ctx, s, nil), state.ErrStale, "nothing runs for that one")
}

func (d database) inTxFails(t *testing.T) {
	store, mine := d.store(t), d.rows(t)
	s := d.load(t, store, 1)
	s.Value().Value = 1
	require.NoError(t, s.Save(d.ctx))
	work := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into "+mine+" values (1)")
		require.NoError(t, err)
		s.Value().Value = 7
		require.NoError(t, s.Save(ctx))
		s.Value().Value = 8
		return errOops
	}
	require.Equal(t, errOops, store.InTx(d.ctx, s, work))
	require.EqualValues(t, 1, s.Value().Value)
	require.Panics(t, func() {
		_ = store.InTx(d.ctx, s, func(ctx context.Context, tx pgx.Tx) error { panic(work(ctx, tx)) })
	})
	require.EqualValues(t, 1, s.Value().Value)
	require.Zero(t, d.count(t, mine))
	require.NoError(t, s.Err())
	s.Value().Value++
	require.NoError(t, s.Save(d.ctx))
	require.EqualValues(t, 2, d.load(t, store, 1).Value().Value)
}

// Writes that only the commit refuses were certainly not stored.
func (d database) commitRefused(t *testing.T) {
	store, mine := d.store(t), d.rows(t)
	d.exec(t, "alter table "+mine+" add unique (n) deferrable initially deferred")
	s := d.load(t, store, 1)
	for _, spoil := range []string{"insert into " + mine + " values (1), (1)", "select 1/0"} {
		err := store.InTx(d.ctx, s, func(ctx context.Context, tx pgx.Tx) error {
			s.Value().Value = 7
			require.NoError(t, s.Save(ctx))
			_, _ = tx.Exec(ctx, spoil)
			return nil
		})
		require.ErrorIs(t, err, state.ErrUnavailable)
		require.NoError(t, s.Err())
		require.Zero(t, s.Value().Value)
	}
	require.NoError(t, s.Save(d.ctx))
}

// A process that stands still within a transaction loses it, and the next owner of the object gets its row.
func (d database) idleTx(t *testing.T) {
	store, mine := d.store(t, func(c *postgres.Config) { c.IdleTimeout = 100 * time.Millisecond }), d.rows(t)
	s := d.load(t, store, 1)
	err := store.InTx(d.ctx, s, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into "+mine+" values (1)")
		require.NoError(t, err)
		s.Value().Value = 7
		require.NoError(t, s.Save(ctx))
		require.Zero(t, d.load(t, store, 2).Value().Value) // waits for the lock
		return nil
	})
	require.Error(t, err)
	require.Zero(t, d.count(t, mine))
	require.ErrorIs(t, s.Save(d.ctx), state.ErrStale)
}

// lossy is a database that carries out a commit or a save and loses the answer.
type lossy struct{ *pgxpool.Pool }

func (l lossy) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := l.Pool.BeginTx(ctx, opts)
	return lossyTx{tx}, err
}

type lossyTx struct{ pgx.Tx }

func (l lossyTx) Commit(ctx context.Context) error {
	return errors.Join(l.Tx.Commit(ctx), io.ErrUnexpectedEOF)
}

func (d database) commitLost(t *testing.T) {
	store := d.store(t, func(c *postgres.Config) { c.DB = lossy{d.pool} })
	s := d.load(t, store, 1)
	err := store.InTx(d.ctx, s, func(ctx context.Context, tx pgx.Tx) error {
		s.Value().Value = 7
		return s.Save(ctx)
	})
	require.ErrorIs(t, err, state.ErrOutcomeUnknown)
	require.ErrorIs(t, s.Err(), state.ErrStale)
	require.Zero(t, s.Value().Value)
	require.ErrorIs(t, s.Save(d.ctx), state.ErrStale)
	require.NoError(t, s.Reload(d.ctx))
	require.EqualValues(t, 7, s.Value().Value)
}

func (d database) doInTx(t *testing.T) {
	store, mine := d.store(t), d.rows(t)
	s := d.load(t, store, 1)
	for range 3 {
		var reply *wrapperspb.Int64Value
		require.NoError(t, store.InTx(d.ctx, s, func(ctx context.Context, tx pgx.Tx) (err error) {
			reply, err = state.Do(ctx, s, "a", func(ctx context.Context) (*wrapperspb.Int64Value, error) {
				if _, err := tx.Exec(ctx, "insert into "+mine+" values (1)"); err != nil {
					return nil, err
				}
				return increment(s)(ctx)
			})
			return err
		}))
		require.EqualValues(t, 1, reply.Value)
		s = d.load(t, store, 1)
	}
	require.Equal(t, 1, d.count(t, mine))
}

func (d database) withTx(t *testing.T) {
	store := d.store(t)
	s := d.load(t, store, 1)
	for i, commit := range []bool{true, false, true} {
		tx, err := d.pool.Begin(d.ctx)
		require.NoError(t, err)
		ctx, end := store.WithTx(d.ctx, tx)
		s.Value().Value = int64(i + 1)
		require.NoError(t, s.Save(ctx))
		if commit {
			end(tx.Commit(d.ctx))
			require.NoError(t, s.Err())
			continue
		}
		require.NoError(t, tx.Rollback(d.ctx))
		end(errOops)
		require.ErrorIs(t, s.Err(), state.ErrStale)
		require.EqualValues(t, 1, s.Value().Value)
		require.NoError(t, s.Reload(d.ctx))
		require.EqualValues(t, 1, s.Value().Value)
	}
	require.EqualValues(t, 3, d.load(t, store, 1).Value().Value)
}

// held keeps the rows of a table locked until release. waits returns the session that waits for one of them.
func (d database) held(t *testing.T, table string) (release func(), waits func() (pid int)) {
	tx, err := d.pool.Begin(d.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(d.ctx) }) // otherwise the pool waits for its connection if a test fails
	holder := tx.Conn().PgConn().PID()
	_, err = tx.Exec(d.ctx, "select 1 from "+table+" for update")
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(d.ctx)) }, func() (pid int) {
		require.Eventually(t, func() bool {
			return d.pool.QueryRow(d.ctx, "select pid from pg_stat_activity where $1 = any(pg_blocking_pids(pid))",
				int32(holder)).Scan(&pid) == nil
		}, patience, time.Millisecond)
		return pid
	}
}

// PostgreSQL ends the session during a save. The outcome is unknown until the State is reloaded.
func (d database) terminated(t *testing.T) {
	var table string
	store := d.store(t, func(c *postgres.Config) { table = c.Table })
	s := d.load(t, store, 1)
	release, waits := d.held(t, table)
	saved := make(chan error, 1)
	go func() {
		_, err := state.Do(d.ctx, s, "a", increment(s))
		saved <- err
	}()
	d.exec(t, "select pg_terminate_backend($1)", waits())
	err := <-saved
	release()
	require.ErrorIs(t, err, state.ErrOutcomeUnknown)
	require.ErrorIs(t, s.Err(), state.ErrStale)
	require.NoError(t, s.Reload(d.ctx))
	require.Zero(t, s.Value().Value)
	reply, err := state.Do(d.ctx, s, "a", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 1, reply.Value)
}

// answerless loses the answer of a save that was carried out.
type answerless struct {
	postgres.DB
	lose bool
}

type noAnswer struct{ pgx.Row }

func (n noAnswer) Scan(dest ...any) error {
	return errors.Join(n.Row.Scan(dest...), io.ErrUnexpectedEOF)
}

func (a *answerless) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	row := a.DB.QueryRow(ctx, sql, args...)
	if a.lose && len(args) > 5 {
		a.lose = false
		return noAnswer{row}
	}
	return row
}

func (d database) lostAnswer(t *testing.T) {
	db := &answerless{DB: d.pool}
	store := d.store(t, func(c *postgres.Config) { c.DB = db })
	s := d.load(t, store, 1)
	db.lose = true
	_, err := state.Do(d.ctx, s, "a", increment(s))
	require.ErrorIs(t, err, state.ErrOutcomeUnknown)
	s = d.load(t, store, 2)
	require.EqualValues(t, 1, s.Value().Value)
	reply, err := state.Do(d.ctx, s, "a", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 1, reply.Value)
	require.EqualValues(t, 1, s.Value().Value)
}

// PostgreSQL continues a statement after its caller has left. Once the State is reloaded, the statement has
// taken effect or never will.
func (d database) delayed(t *testing.T) {
	var table string
	store := d.store(t, func(c *postgres.Config) { table = c.Table })
	for range 10 {
		s := d.load(t, store, 1)
		before := s.Value().Value
		release, waits := d.held(t, table)
		ctx, leave := context.WithCancel(d.ctx)
		saved := make(chan error, 1)
		go func() {
			s.Value().Value++
			saved <- s.Save(ctx)
		}()
		abandoned := waits()
		leave()
		err := <-saved
		require.ErrorIs(t, err, state.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.Canceled)
		reloaded := make(chan error, 1)
		go func() { reloaded <- s.Reload(d.ctx) }()
		release()
		require.NoError(t, <-reloaded)
		require.Contains(t, []int64{before, before + 1}, s.Value().Value)
		s.Value().Value += 10
		require.NoError(t, s.Save(d.ctx))
		require.Equal(t, s.Value().Value, d.load(t, store, 1).Value().Value)
		require.Eventually(t, func() bool { // otherwise the next round mistakes it for its own
			var there bool
			err := d.pool.QueryRow(d.ctx, "select exists (select from pg_stat_activity where pid = $1)",
				abandoned).Scan(&there)
			return err == nil && !there
		}, patience, time.Millisecond)
	}
}

// A save that gets no connection has certainly written nothing.
func (d database) noConnection(t *testing.T) {
	pool := d.connect(t, "&pool_max_conns=1")
	store := d.store(t, func(c *postgres.Config) { c.DB = pool })
	s := d.load(t, store, 1)
	taken, err := pool.Acquire(d.ctx)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(d.ctx, 10*time.Millisecond)
	defer cancel()
	s.Value().Value = 1
	err = s.Save(ctx)
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.Err())
	taken.Release()
	s.Value().Value = 1
	require.NoError(t, s.Save(d.ctx))
}

func (d database) away(t *testing.T) {
	pool, err := pgxpool.New(d.ctx, "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable")
	require.NoError(t, err)
	defer pool.Close()
	store, err := postgres.New(postgres.Config{DB: pool})
	require.NoError(t, err)
	ref := state.Ref{Service: "a", Key: "b"}
	_, err = store.Load(d.ctx, ref, 1)
	require.ErrorIs(t, err, state.ErrUnavailable)
	_, err = store.Save(d.ctx, ref, state.Write{Version: 1, Epoch: 1})
	require.ErrorIs(t, err, state.ErrUnavailable)
	store, err = postgres.New(postgres.Config{DB: &answerless{DB: pool}})
	require.NoError(t, err)
	_, err = store.Save(d.ctx, ref, state.Write{Version: 1, Epoch: 1})
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.ErrorIs(t, store.InTx(d.ctx, nil, nil), state.ErrUnavailable)
}
