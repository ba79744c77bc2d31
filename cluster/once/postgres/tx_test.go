//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/internal/test/pace"
)

// effectTx is an effect in a transaction.
type effectTx = func(ctx context.Context, tx pgx.Tx) ([]byte, error)

// addRan adds a row to the table ran.
func (p *process) addRan(ctx context.Context, tx pgx.Tx) ([]byte, error) {
	_, err := tx.Exec(ctx, "insert into ran values (0)")
	return []byte("paid"), err
}

// tx runs an effect in a transaction, and then does more in it. An error rolls the transaction back.
func (p *process) tx(ctx context.Context, name string, fn effectTx,
	more func(pgx.Tx) error) (r once.Result, err error) {
	return p.txWith(ctx, pgx.TxOptions{}, name, fn, more)
}

func (p *process) txWith(ctx context.Context, opts pgx.TxOptions, name string, fn effectTx,
	more func(pgx.Tx) error) (r once.Result, err error) {
	err = pgx.BeginTxFunc(ctx, p.pool, opts, func(tx pgx.Tx) (err error) {
		r, err = p.OnceTx(ctx, tx, name, fn)
		if err == nil && more != nil {
			err = more(tx)
		}
		return err
	})
	return r, err
}

func neverTx(context.Context, pgx.Tx) ([]byte, error) { panic("it must not run") }

// awaitLockWait waits until a statement waits for a transaction.
func (s *testBed) awaitLockWait() {
	s.Helper()
	s.eventually(func() bool {
		return s.count(`select count(*) from pg_stat_activity where wait_event = 'transactionid'
			and datname = current_database() and query like '%effect%'`) == 1
	})
}

// The mark and the effect are committed together.
func TestTxCommitted(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	s.createRan()
	first, err := a.tx(s.ctx, "payment", a.addRan, func(pgx.Tx) error {
		_, err := b.Look(s.ctx, "payment")
		require.ErrorIs(t, err, once.ErrNoMark, "it is not committed")
		return nil
	})
	require.NoError(t, err)
	require.True(t, first.Ran)
	require.Equal(t, "paid", string(first.Value))
	require.Equal(t, 1, first.Attempt)
	require.Positive(t, first.Token)
	again, err := b.tx(s.ctx, "payment", neverTx, nil)
	require.NoError(t, err)
	other, err := b.Once(s.ctx, "payment", never)
	require.NoError(t, err)
	require.Equal(t, again, other)
	first.Ran = false
	require.Equal(t, first, again)
	require.Equal(t, 1, s.countRan())
	found, err := b.Look(s.ctx, "payment")
	require.NoError(t, err)
	require.Equal(t, once.Standing{Name: "payment", State: once.Done, Attempt: 1, Token: first.Token, By: a.owner,
		At: found.At, Value: []byte("paid"), Retention: once.DefaultRetention}, found)
}

// What is rolled back did not take place: by the caller, by a panic, or, back to the savepoint, by the effect's
// error.
func TestTxRolledBack(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	s.createRan()
	_, err := a.tx(s.ctx, "payment", a.addRan, func(pgx.Tx) error { return errRefused })
	require.Equal(t, errRefused, err)
	require.PanicsWithValue(t, "oops", func() {
		_, _ = a.tx(s.ctx, "payment", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, _ = a.addRan(ctx, tx)
			panic("oops")
		}, nil)
	})
	err = pgx.BeginFunc(s.ctx, a.pool, func(tx pgx.Tx) error {
		_, err := a.OnceTx(s.ctx, tx, "payment", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, _ = a.addRan(ctx, tx)
			_, err := tx.Exec(ctx, "select 1/0")
			require.Error(t, err)
			return nil, errRefused
		})
		require.Equal(t, errRefused, err, "as it is")
		r, err := a.OnceTx(s.ctx, tx, "another", a.addRan)
		require.NoError(t, err, "the transaction may go on")
		require.True(t, r.Ran)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, s.countRan())
	_, err = b.Look(s.ctx, "payment")
	require.ErrorIs(t, err, once.ErrNoMark)
	r, err := b.tx(s.ctx, "payment", b.addRan, nil)
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.Equal(t, 2, s.countRan())
}

// A second transaction, and a call of Once, wait for the first transaction, whatever becomes of it.
func TestTxAtOnce(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	s.createRan()
	for _, commit := range []bool{true, false} {
		for what, second := range map[string]func(name string) (once.Result, error){
			"transaction": func(name string) (once.Result, error) { return b.tx(s.ctx, name, b.addRan, nil) },
			"once": func(name string) (once.Result, error) {
				return b.Once(s.ctx, name, func(context.Context, int64) ([]byte, error) {
					_, err := b.pool.Exec(s.ctx, "insert into ran values (1)")
					return []byte("paid"), err
				})
			},
		} {
			before := s.countRan()
			var r once.Result
			ended := make(chan error, 1)
			_, err := a.tx(s.ctx, what, a.addRan, func(pgx.Tx) error {
				go func() {
					var err error
					r, err = second(what)
					ended <- err
				}()
				s.awaitLockWait()
				if !commit {
					return errRefused
				}
				return nil
			})
			require.Equal(t, commit, err == nil, "%v", err)
			require.NoError(t, <-ended)
			require.Equal(t, !commit, r.Ran, "%s, committed: %v", what, commit)
			require.Equal(t, "paid", string(r.Value))
			require.Equal(t, before+1, s.countRan())
			s.exec("delete from goverse.effect")
		}
	}
}

// Twenty transactions at once, of which some fail and are repeated.
func TestManyTxAtOnce(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	s.createRan()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		before := s.countRan()
		var wg sync.WaitGroup
		for i := range 20 {
			p := []*process{a, b}[i%2]
			wg.Go(func() {
				for n := 0; ; n++ {
					r, err := p.txWith(s.ctx, pgx.TxOptions{IsoLevel: level}, string(level), p.addRan, func(pgx.Tx) error {
						if i < 5 && n == 0 {
							return errRefused
						}
						return nil
					})
					switch {
					case errors.Is(err, errRefused):
					case pg.CodeOf(err) == pg.CodeSerializationFailure && level != pgx.ReadCommitted:
					default:
						assert.NoError(t, err)
						assert.Equal(t, "paid", string(r.Value))
						return
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, before+1, s.countRan(), level)
	}
}

// With a snapshot from before the other transaction's commit, PostgreSQL fails the second one.
func TestTxWithAnOldSnapshot(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	s.createRan()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		err := pgx.BeginTxFunc(s.ctx, a.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			_, err := tx.Exec(s.ctx, "select count(*) from ran")
			require.NoError(t, err)
			_, err = b.tx(s.ctx, string(level), b.addRan, nil)
			require.NoError(t, err)
			_, err = a.OnceTx(s.ctx, tx, string(level), neverTx)
			return err
		})
		require.Equal(t, pg.CodeSerializationFailure, pg.CodeOf(err), "%v", err)
	}
}

// A transaction does not wait for a running attempt of Once, does not hold it up, and does not run an unknown effect.
func TestTxBesideOnce(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	r, err := a.Once(s.ctx, "running", func(context.Context, int64) ([]byte, error) {
		_, err := b.tx(s.ctx, "running", neverTx, nil)
		require.ErrorIs(t, err, postgres.ErrRunning)
		return nil, nil
	})
	require.NoError(t, err)
	require.True(t, r.Ran)
	var open pgx.Tx // a transaction that goes on after ErrRunning does not lock the mark
	r, err = a.Once(s.ctx, "not held up", func(context.Context, int64) ([]byte, error) {
		open, err = b.pool.Begin(s.ctx)
		require.NoError(t, err)
		_, err = b.OnceTx(s.ctx, open, "not held up", neverTx)
		require.ErrorIs(t, err, postgres.ErrRunning)
		return nil, nil
	})
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.NoError(t, open.Rollback(s.ctx))

	require.Panics(t, func() {
		_, _ = a.Once(s.ctx, "unknown", func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
	_, err = b.tx(s.ctx, "unknown", neverTx, nil)
	token := requireUnknown(t, err, a.owner)
	require.NoError(t, a.Resolve(s.ctx, "unknown", token, false, nil))
	s.createRan()
	r, err = b.tx(s.ctx, "unknown", b.addRan, nil)
	require.NoError(t, err)
	require.True(t, r.Ran)
	require.Equal(t, 2, r.Attempt)
	require.Greater(t, r.Token, token)
}

func TestTxArguments(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	long := strings.Repeat("x", once.MaxValue+1)
	r, err := once.Result{}, error(nil)
	require.NoError(t, pgx.BeginFunc(s.ctx, a.pool, func(tx pgx.Tx) error {
		_, bad := a.OnceTx(s.ctx, tx, "", neverTx)
		require.ErrorIs(t, bad, once.ErrBadName)
		_, bad = a.OnceTx(s.ctx, tx, "no function", nil)
		require.ErrorContains(t, bad, "the function is nil")
		r, err = a.OnceTx(s.ctx, tx, "long", func(context.Context, pgx.Tx) ([]byte, error) { return []byte(long), nil })
		return nil // it takes place all the same
	}))
	require.ErrorIs(t, err, once.ErrValueTooLong)
	require.True(t, r.Ran)
	require.Len(t, r.Value, len(long))
	r, err = b.Once(s.ctx, "long", never)
	require.ErrorIs(t, err, once.ErrValueTooLong)
	require.Empty(t, r.Value)
}
