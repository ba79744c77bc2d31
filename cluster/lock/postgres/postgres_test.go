//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/locktest"
	"github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

var owners atomic.Int64

// open opens a session that ends with the test.
func open(t testing.TB, db *pgserver.Server, deadline time.Duration) *pgsession.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: db.URL(), Deadline: deadline,
		Owner: fmt.Sprint("process ", owners.Add(1))})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	})
	return s
}

func TestConforms(t *testing.T) {
	db := pgserver.StartForTest(t)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		return postgres.New(open(t, db, 0)), postgres.New(open(t, db, 0))
	})
}

// A lock beside an advisory lock excludes programs that only know that one, in both directions.
func TestBesideAdvisoryLocks(t *testing.T) {
	db := pgserver.StartForTest(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	numbered := postgres.BesideAdvisoryLocks(func(name string) (int64, bool) { return 42, name == "outbox" })
	locks := postgres.New(open(t, db, 0), numbered)
	old, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	try := func(sql string) (ok bool) {
		t.Helper()
		require.NoError(t, old.QueryRow(ctx, sql).Scan(&ok))
		return ok
	}
	const lockIt, lockShared, unlock = "select pg_try_advisory_lock(42)", "select pg_try_advisory_lock_shared(42)",
		"select pg_advisory_unlock(42)"
	held, err := locks.Acquire(ctx, "outbox")
	require.NoError(t, err)
	require.False(t, try(lockIt))
	require.NoError(t, held.Release(ctx))
	require.True(t, try(lockIt))

	_, ok, err := locks.TryAcquire(ctx, "outbox")
	require.NoError(t, err)
	require.False(t, ok, "the other program has it")
	other, err := locks.Acquire(ctx, "another")
	require.NoError(t, err)
	got := make(chan lock.Held, 1)
	go func() {
		if h, err := locks.Acquire(ctx, "outbox"); err == nil {
			got <- h
		}
		close(got)
	}()
	brief, end := context.WithTimeout(ctx, 10*time.Millisecond)
	defer end()
	_, err = locks.Acquire(brief, "outbox")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, got)
	require.True(t, try(unlock))
	held = <-got
	require.NotNil(t, held)
	require.True(t, held.Valid())
	require.False(t, try(lockIt))
	require.NoError(t, held.Release(ctx))

	shared, err := locks.Acquire(ctx, "outbox", lock.Shared())
	require.NoError(t, err)
	require.True(t, try(lockShared))
	require.False(t, try(lockIt))
	require.NoError(t, shared.Release(ctx))
	require.NoError(t, other.Release(ctx))
	require.NoError(t, old.Close(ctx))
}
