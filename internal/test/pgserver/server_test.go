//go:build unix

package pgserver

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
