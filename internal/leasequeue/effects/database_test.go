//go:build unix

package effects_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/test/pgserver"
	"github.com/goverse/goverse/internal/test/testbed"
)

// The pattern of the package comment: an attempt loses its session halfway, and is given up in the database.
// Then its transaction can no longer commit; or it has committed, and the database says so.
func TestADatabaseSaysWhatIsTrue(t *testing.T) {
	s := newTestBed(t, testbed.ShortTTL)
	db := pgserver.StartForTest(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(s.ctx, db.URL())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	worker, other := connect(), connect()
	_, err := other.Exec(s.ctx, `create table effects (name text, token bigint, took_place bool not null,
		primary key (name, token));
		create table accounts (booked int not null); insert into accounts values (0)`)
	require.NoError(t, err)

	// book is the effect. Its process pauses before the transaction, or after the commit and before it reports
	// that.
	book := func(token int64, before, after func()) error {
		before()
		tx, err := worker.Begin(s.ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(s.ctx) }() // no effect after a commit
		if _, err := tx.Exec(s.ctx, "insert into effects values ('book', $1, true)", token); err != nil {
			return err
		}
		if _, err := tx.Exec(s.ctx, "update accounts set booked = booked + 1"); err != nil {
			return err
		}
		err = tx.Commit(s.ctx)
		after()
		return err
	}
	settle := func(token int64) (tookPlace bool) {
		_, err := other.Exec(s.ctx, "insert into effects values ('book', $1, false) on conflict do nothing", token)
		require.NoError(t, err)
		require.NoError(t, other.QueryRow(s.ctx, "select took_place from effects where name = 'book' and token = $1",
			token).Scan(&tookPlace))
		require.NoError(t, s.b.Resolve(s.ctx, "book", token, tookPlace, nil))
		return tookPlace
	}
	// cut runs the effect at a, ends a's session halfway, and resolves the effect from b meanwhile.
	cut := func(late bool) (tookPlace bool, inTransaction error) {
		inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		stand := func(here bool) func() {
			return func() {
				if here {
					close(inside)
					<-goOn
				}
			}
		}
		go func() {
			_, err := s.a.Once(s.ctx, "book", func(_ context.Context, token int64) ([]byte, error) {
				inTransaction = book(token, stand(late), stand(!late))
				return nil, inTransaction
			})
			ended <- err
		}()
		select {
		case <-inside:
		case err := <-ended:
			require.Fail(t, "the effect did not begin", "%v", err)
		}
		s.a.Faults.CutOff()
		_, err := s.b.Once(s.ctx, "book", never)
		unknown, ok := errors.AsType[*once.UnknownError](err)
		require.True(t, ok, "%v", err)
		tookPlace = settle(unknown.Token)
		s.a.Faults.Reconnect()
		close(goOn)
		require.ErrorIs(t, <-ended, once.ErrUnknown)
		return tookPlace, inTransaction
	}

	tookPlace, err := cut(true)
	require.False(t, tookPlace)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "23505", refused.Code, "the attempt was given up")

	tookPlace, err = cut(false)
	require.True(t, tookPlace)
	require.NoError(t, err)
	_, err = s.b.Once(s.ctx, "book", never)
	require.NoError(t, err)
	var booked int
	require.NoError(t, other.QueryRow(s.ctx, "select booked from accounts").Scan(&booked))
	require.Equal(t, 1, booked)
}
