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
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// shared is the server of the tests that do not stop it.
var shared pgserver.Shared

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(shared.Tests(m))
}

const patience = time.Minute

// steady is the deadline of sessions that are not to be lost.
const steady = 10 * time.Second

var owners atomic.Int64

// open opens a session that ends with the test.
func open(t testing.TB, db interface{ URL() string }, deadline time.Duration) *pgsession.Session {
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
	pace.Parallel(t)
	db := shared.Database(t)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		return postgres.New(open(t, db, steady)), postgres.New(open(t, db, steady))
	})
}

// A lock beside an advisory lock excludes programs that only know that one, in both directions.
func TestBesideAdvisoryLocks(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	numbered := postgres.BesideAdvisoryLocks(func(name string) (int64, bool) { return 42, name == "outbox" })
	locks := postgres.New(open(t, db, steady), numbered)
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

func TestList(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	locks := postgres.New(open(t, db, steady))
	names := []string{"a", "b/\x00\xff%", "c"}
	var held []lock.Held
	for _, name := range names {
		h, err := locks.Acquire(ctx, name, lock.Shared())
		require.NoError(t, err)
		held = append(held, h)
	}
	second, err := locks.Acquire(ctx, "a", lock.Shared())
	require.NoError(t, err)
	conn, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	all, more, err := postgres.List(ctx, conn, "", lock.Query{})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, all, 3)
	for i, s := range all {
		require.Equal(t, names[i], s.Name)
		require.True(t, s.Shared)
		require.Equal(t, held[i].Token(), s.Holders[0].Token)
		require.Contains(t, s.Holders[0].Owner, "process")
	}
	require.Len(t, all[0].Holders, 2)
	require.Equal(t, 2, all[0].Length)
	part, more, err := postgres.List(ctx, conn, "", lock.Query{After: "a", Limit: 1, Holders: 1})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, all[1:2], part)
	for _, s := range all {
		one, err := postgres.Read(ctx, conn, "", s.Name)
		require.NoError(t, err)
		require.Equal(t, s, one)
	}
	none, err := postgres.Read(ctx, conn, "", "none")
	require.NoError(t, err)
	require.Equal(t, lock.Standing{Name: "none", Holders: []lock.Holder{}}, none)
	_, err = postgres.Read(ctx, conn, "no such schema", "a")
	require.Error(t, err)
	for _, h := range append(held, second) {
		require.NoError(t, h.Release(ctx))
	}
	all, _, err = postgres.List(ctx, conn, "", lock.Query{})
	require.NoError(t, err)
	require.Empty(t, all)
	_, _, err = postgres.List(ctx, conn, "no such schema", lock.Query{})
	require.Error(t, err)
	require.NoError(t, conn.Close(ctx))
}
