//go:build unix

package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// BenchmarkUncontended compares a lock with a bare advisory lock of a session, on a server that writes to the disk.
func BenchmarkUncontended(b *testing.B) {
	db, err := pgserver.Start()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	b.Run("advisory", func(b *testing.B) {
		conn, err := pgx.Connect(b.Context(), db.URL())
		require.NoError(b, err)
		for b.Loop() {
			_, err := conn.Exec(b.Context(), "SELECT pg_advisory_lock(1)")
			require.NoError(b, err)
			_, err = conn.Exec(b.Context(), "SELECT pg_advisory_unlock(1)")
			require.NoError(b, err)
		}
		require.NoError(b, conn.Close(b.Context()))
	})
	locks := postgres.New(open(b, db, 0))
	b.Run("lock", func(b *testing.B) {
		for b.Loop() {
			h, err := locks.Acquire(b.Context(), "it")
			require.NoError(b, err)
			require.NoError(b, h.Release(b.Context()))
		}
	})
}
