//go:build unix

package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/electortest"
	"github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var names atomic.Int64

// database is one server for all tests, and a context that ends.
type database struct {
	*pgserver.Server
	ctx context.Context
}

func (d database) pool(t *testing.T, options string) *pgxpool.Pool {
	t.Helper()
	return d.poolAt(t, d.URL()+options)
}

func (d database) poolAt(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(d.ctx, url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// stores returns a function that creates a store without a record, in a table of that name.
func (d database) stores(table pgx.Identifier, options string) func(t *testing.T) elector.LeaseStore {
	return func(t *testing.T) elector.LeaseStore {
		pool := d.pool(t, options)
		require.NoError(t, postgres.CreateTable(d.ctx, pool, table))
		store, err := postgres.New(postgres.Config{DB: pool, Table: table, Name: fmt.Sprint(`it's "`, names.Add(1))})
		require.NoError(t, err)
		return store
	}
}

func TestPostgres(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	d := database{pgserver.StartForTest(t), ctx}
	t.Run("conforms", func(t *testing.T) { electortest.Run(t, d.stores(nil, "")) })
	t.Run("conforms in a table whose name needs quotes", func(t *testing.T) {
		electortest.Run(t, d.stores(pgx.Identifier{"public", `Leases"; DROP TABLE goverse_leases; --`}, ""))
	})
	t.Run("conforms where transactions are serializable", func(t *testing.T) {
		electortest.Run(t, d.stores(nil, "&default_transaction_isolation=serializable"))
	})
	t.Run("the table is made once", d.tableIsMadeOnce)
	t.Run("one connection will do", d.oneConnection)
	t.Run("a record made anew has no version of the one before", d.madeAnew)
	t.Run("handover", d.handover)
	t.Run("a notification hands over at once", d.notified)
	t.Run("changes of the holder notify, renewals do not", d.notifies)
	t.Run("a lost connection is replaced", d.listensAgain)
	t.Run("a connection is not watched", d.connectionPolls)
	t.Run("a pooler of transactions polls", d.poolerPolls)
	t.Run("a write that is carried out late", d.lateWrite)
	t.Run("the number is a fence", d.fence)
	t.Run("the row is a fence", d.rowFence)
}

func (d database) tableIsMadeOnce(t *testing.T) {
	pool := d.pool(t, "&pool_max_conns=16")
	for round := range 5 {
		table := pgx.Identifier{fmt.Sprint("many at once ", round)}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() { assert.NoError(t, postgres.CreateTable(d.ctx, pool, table)) })
		}
		wg.Wait()
		require.NoError(t, postgres.CreateTable(d.ctx, pool, table), "again")
	}
	forgot, err := postgres.New(postgres.Config{DB: pool, Table: pgx.Identifier{"forgotten"}, Name: "it"})
	require.NoError(t, err)
	_, err = forgot.GetLease(d.ctx)
	require.ErrorContains(t, err, "make the table with CreateTable")
	require.Error(t, postgres.CreateTable(d.ctx, pool, pgx.Identifier{"no such schema", "leases"}))
	require.Error(t, postgres.CreateTable(d.ctx, pool, pgx.Identifier{""}))
	_, err = postgres.New(postgres.Config{DB: pool, Table: pgx.Identifier{"a", ""}, Name: "it"})
	require.ErrorIs(t, err, elector.ErrBadConfig)
	_, err = postgres.New(postgres.Config{Name: "it"})
	require.ErrorIs(t, err, elector.ErrBadConfig)
	var long string
	for len(long) < 513 {
		long += rand.Text()
	}
	for _, name := range []string{"", "\xff", "a\x00", long[:513]} {
		_, err = postgres.New(postgres.Config{DB: pool, Name: name})
		require.ErrorIs(t, err, elector.ErrBadConfig)
	}
	store, err := postgres.New(postgres.Config{DB: pool, Table: pgx.Identifier{"many at once 0"}, Name: long[:512]})
	require.NoError(t, err)
	_, err = store.CreateLease(d.ctx, elector.Lease{})
	require.NoError(t, err)
}

func (d database) oneConnection(t *testing.T) {
	conn, err := pgx.Connect(d.ctx, d.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(d.ctx)) }()
	require.NoError(t, postgres.CreateTable(d.ctx, conn, nil))
	store, err := postgres.New(postgres.Config{DB: conn, Name: "connection"})
	require.NoError(t, err)
	lease, err := store.CreateLease(d.ctx, elector.Lease{HolderIdentity: "a"})
	require.NoError(t, err)
	read, err := store.GetLease(d.ctx)
	require.NoError(t, err)
	require.Equal(t, lease, read)
}

func (d database) madeAnew(t *testing.T) {
	pool := d.pool(t, "")
	store, err := postgres.New(postgres.Config{DB: pool, Name: "anew"})
	require.NoError(t, err)
	first, err := store.CreateLease(d.ctx, elector.Lease{})
	require.NoError(t, err)
	_, err = pool.Exec(d.ctx, "DELETE FROM goverse_leases WHERE name = 'anew'")
	require.NoError(t, err)
	_, err = store.CreateLease(d.ctx, elector.Lease{})
	require.NoError(t, err)
	_, err = store.UpdateLease(d.ctx, first)
	require.ErrorIs(t, err, elector.ErrConflict)
}

// candidate is an elector that reports the beginnings of its terms.
type candidate struct {
	*elector.Elector
	starts chan time.Time
	stop   func() error
}

func (d database) stand(t *testing.T, store elector.LeaseStore, id string,
	change ...func(*elector.Config)) *candidate {
	t.Helper()
	c := &candidate{starts: make(chan time.Time, 100)}
	cfg := elector.Config{LeaseStore: store, CandidateID: id, LeaseDuration: 2 * time.Second,
		RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context) { c.starts <- time.Now(); <-ctx.Done() }}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	c.Elector, err = elector.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(d.ctx)
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx)
		close(done)
	}()
	c.stop = func() error { cancel(); return <-done }
	t.Cleanup(func() { _ = c.stop() })
	return c
}

func (d database) led(t *testing.T, c *candidate) time.Time {
	t.Helper()
	select {
	case at := <-c.starts:
		return at
	case <-d.ctx.Done():
		require.Fail(t, "it does not lead")
		return time.Time{}
	}
}

func (d database) follows(t *testing.T, c *candidate, leader string) {
	t.Helper()
	require.Eventually(t, func() bool { return c.Leader() == leader }, time.Minute, time.Millisecond)
}

func (d database) handover(t *testing.T) {
	store := d.stores(nil, "")(t)
	a := d.stand(t, store, "a")
	d.led(t, a)
	b := d.stand(t, store, "b")
	d.follows(t, b, "a")
	token, began := a.Token(), time.Now()
	require.NoError(t, a.stop())
	t.Logf("the next one leads %v after the leader was asked to stop", d.led(t, b).Sub(began))
	require.Equal(t, token+1, b.Token())
}

// The row is locked while the leader renews. The renewal is abandoned, and finally the term. PostgreSQL may
// still carry out the abandoned request.
func (d database) lateWrite(t *testing.T) {
	store := d.stores(nil, "")(t)
	a := d.stand(t, store, "a")
	d.led(t, a)
	other := d.pool(t, "")
	tx, err := other.Begin(d.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(d.ctx, "SELECT 1 FROM goverse_leases FOR UPDATE")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !a.IsLeader() }, time.Minute, time.Millisecond)
	require.Empty(t, a.starts)
	require.NoError(t, tx.Rollback(d.ctx))
	d.led(t, a)
	require.Greater(t, a.Token(), int64(1))
}

// A write of a leader is refused after a later leader has written: the statement in package elector's comment.
func (d database) fence(t *testing.T) {
	pool := d.pool(t, "")
	_, err := pool.Exec(d.ctx, "CREATE TABLE reports (id int PRIMARY KEY, body text, token bigint NOT NULL DEFAULT 0)")
	require.NoError(t, err)
	_, err = pool.Exec(d.ctx, "INSERT INTO reports (id) VALUES (7)")
	require.NoError(t, err)
	write := func(token int64, body string) bool {
		tag, err := pool.Exec(d.ctx, "UPDATE reports SET body = $2, token = $1 WHERE id = $3 AND token <= $1", token, body, 7)
		require.NoError(t, err)
		return tag.RowsAffected() == 1
	}
	store := d.stores(nil, "")(t)
	a := d.stand(t, store, "a")
	d.led(t, a)
	old := a.Token()
	require.True(t, write(old, "a"))
	require.True(t, write(old, "a again"))
	require.NoError(t, a.stop())
	b := d.stand(t, store, "b")
	d.led(t, b)
	require.True(t, write(b.Token(), "b"))
	require.False(t, write(old, "late"))
	require.False(t, write(a.Token(), "without leading"), "that is 0")
}

// No term begins while a transaction holds the row: the statement in this package's comment.
func (d database) rowFence(t *testing.T) {
	store := d.stores(nil, "")(t)
	lease, err := store.CreateLease(d.ctx, elector.Lease{LeaderTransitions: 3})
	require.NoError(t, err)
	pool := d.pool(t, "")
	tx, err := pool.Begin(d.ctx)
	require.NoError(t, err)
	stands := func(token int64) bool {
		tag, err := tx.Exec(d.ctx, "SELECT 1 FROM goverse_leases WHERE name = $2 AND leader_transitions = $1 FOR SHARE",
			token, fmt.Sprint(`it's "`, names.Load()))
		require.NoError(t, err)
		return tag.RowsAffected() == 1
	}
	require.False(t, stands(2))
	require.True(t, stands(3))
	written := make(chan error, 1)
	go func() {
		next := lease
		next.LeaderTransitions = 4
		_, err := store.UpdateLease(d.ctx, next)
		written <- err
	}()
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, pool.QueryRow(d.ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting))
		return waiting > 0
	}, 20*time.Second, 5*time.Millisecond)
	require.Empty(t, written)
	require.NoError(t, tx.Commit(d.ctx))
	require.NoError(t, <-written)
}
