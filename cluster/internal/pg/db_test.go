//go:build unix

package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// wrapped is a pool in a type of the user's own.
type wrapped struct{ *pgxpool.Pool }

// A statement is repeated if it certainly had no effect, but not if its outcome is unknown. In both cases the
// connection is not used again.
func TestWhatIsRepeated(t *testing.T) {
	db, ctx := pgserver.StartForTest(t), t.Context()
	const (
		read  = "select pg_backend_pid()"
		write = "insert into pids values (pg_backend_pid()) returning pid"
	)
	setup, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, setup.Close(context.Background())) })
	_, err = setup.Exec(ctx, "create table pids (pid int)")
	require.NoError(t, err)
	readOnly := func(q pg.Querier) error {
		_, err := q.Exec(ctx, "set session characteristics as transaction read only")
		return err
	}
	killed := func(q pg.Querier) error {
		_, err := q.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
		return err
	}
	for _, test := range []struct {
		name  string
		spoil func(pg.Querier) error // what happens to the first connection used
		write bool
		wrap  bool
		ok    bool
	}{
		{"a write to a session that is read-only", readOnly, true, false, true},
		{"a write to one, by a pool of the user's", readOnly, true, true, true},
		{"a read that may be out of date", readOnly, false, false, true},
		{"a read whose connection ends", killed, false, false, true},
		{"a write whose connection ends", killed, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log logtest.Buffer
			pool, err := pgxpool.New(ctx, db.URL()+"&pool_max_conns=1")
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			d := pg.New(pool, log.Logger())
			if test.wrap {
				d = pg.New(wrapped{pool}, log.Logger())
			}
			var first, second, times int
			require.NoError(t, d.QueryRow(ctx, read).Scan(&first))
			do := func(q pg.Querier) error {
				if times++; times == 1 {
					if err := test.spoil(q); err != nil {
						return err
					}
				}
				if test.write {
					return q.QueryRow(ctx, write).Scan(&second)
				}
				return q.QueryRow(ctx, read).Scan(&second)
			}
			if test.write {
				err = d.Write(ctx, do)
			} else {
				err = d.Read(ctx, do)
			}
			if !test.ok {
				require.Equal(t, "57P01", pg.CodeOf(err))
				require.Equal(t, 1, times)
				require.NoError(t, d.QueryRow(ctx, read).Scan(&second), "on a new connection")
			} else {
				require.NoError(t, err)
				require.Equal(t, 2, times)
			}
			require.NotEqual(t, first, second)
			require.LessOrEqual(t, log.Count("retrying on new connections"), 1)
		})
	}
}

// A log that is not read delays no statement, although it gets a line about the outage.
func TestALogThatStalls(t *testing.T) {
	gate, said := make(chan struct{}), make(chan struct{}, 10)
	stalls := hclog.New(&hclog.LoggerOptions{Output: writerFunc(func(p []byte) (int, error) {
		said <- struct{}{}
		<-gate
		return len(p), nil
	})})
	nowhere, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(nowhere.Close)
	ended := make(chan error, 1)
	go func() {
		var n int
		ended <- pg.New(nowhere, stalls).QueryRow(t.Context(), "select 1").Scan(&n)
	}()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		t.Error("the statement waits for the log")
	}
	<-said
	close(gate)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestExplain(t *testing.T) {
	plain := errors.New("plain")
	require.Equal(t, plain, pg.WithRemedy(plain))
	require.NoError(t, pg.WithRemedy(nil))
}
