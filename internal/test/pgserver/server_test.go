//go:build unix

package pgserver

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var shared Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// Tests that share a server do not see each other's tables, and leave no database.
func TestShared(t *testing.T) {
	for range 2 {
		t.Run("", func(t *testing.T) {
			require.NoError(t, execAt(shared.Database(t).URL(), "create table t (x int)"))
		})
	}
	var databases int
	const count = "select count(*) from pg_database where datname ~ '^test'"
	require.NoError(t, queryValue(t.Context(), shared.Server(t), count, &databases))
	require.Zero(t, databases)
}

// TestServer checks that committed data survives a kill, and that Close removes everything.
func TestServer(t *testing.T) {
	s := StartForTest(t)
	with := func(do func(*pgx.Conn)) {
		conn, err := pgx.Connect(context.Background(), s.URL())
		require.NoError(t, err)
		do(conn)
		_ = conn.Close(context.Background()) // it may have broken
	}
	with(func(conn *pgx.Conn) {
		_, err := conn.Exec(context.Background(), "create table t as select 7 as x")
		require.NoError(t, err)
	})
	s.Kill()
	require.NoError(t, s.Restart())
	with(func(conn *pgx.Conn) {
		var x int
		require.NoError(t, conn.QueryRow(context.Background(), "select x from t").Scan(&x))
		require.Equal(t, 7, x)
	})

	another, err := Start()
	require.NoError(t, err)
	require.NotEqual(t, s.Address(), another.Address())
	dir := another.dir
	require.NoError(t, another.Close())
	require.NoDirExists(t, dir)
}
