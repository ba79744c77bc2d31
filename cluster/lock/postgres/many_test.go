//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// manyLocks is the number of locks that one process requests at once.
const manyLocks = 10_000

// A process requests 10,000 locks at once, holds all of them for longer than its deadline on three connections, and
// releases them at once. Meanwhile another process gets none of them.
func TestManyLocks(t *testing.T) {
	db := pgserver.StartForTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	number := func(sql string) (n int) {
		t.Helper()
		require.NoError(t, conn.QueryRow(ctx, sql).Scan(&n))
		return n
	}
	const others = `select count(*) from pg_stat_activity where backend_type = 'client backend'
		and pid <> pg_backend_pid()`
	deadline := pace.TTL(4 * time.Second) // a busy machine needs time for a heartbeat beside so many requests
	locks := postgres.New(open(t, db, deadline))
	require.Equal(t, 3, number(others))

	held, began := make([]lock.Held, manyLocks), time.Now()
	each := func(do func(i int) error) time.Duration {
		t.Helper()
		began, errs := time.Now(), make([]error, manyLocks)
		var all sync.WaitGroup
		for i := range manyLocks {
			all.Go(func() { errs[i] = do(i) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		return time.Since(began)
	}
	acquired := each(func(i int) (err error) {
		held[i], err = locks.Acquire(ctx, fmt.Sprint("order ", i))
		return err
	})
	require.Equal(t, manyLocks, number("select count(*) from goverse.claim where token is not null"))
	require.Equal(t, 3, number(others))

	second := postgres.New(open(t, db, deadline))
	tokens := map[int64]bool{}
	for i := 0; time.Since(began) < acquired+2*deadline; i++ {
		_, ok, err := second.TryAcquire(ctx, held[i%manyLocks].Name())
		require.NoError(t, err)
		require.False(t, ok)
	}
	for _, h := range held {
		require.True(t, h.Valid())
		tokens[h.Token()] = true
	}
	require.Len(t, tokens, manyLocks)
	require.Equal(t, 6, number(others))

	released := each(func(i int) error { return held[i].Release(ctx) })
	require.Zero(t, number("select count(*) from goverse.claim"))
	h, ok, err := second.TryAcquire(ctx, "order 1")
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, h.Release(ctx))
	require.NoError(t, conn.Close(ctx))
	t.Logf("%d locks acquired in %v, released in %v", manyLocks, acquired.Round(time.Millisecond),
		released.Round(time.Millisecond))
}
