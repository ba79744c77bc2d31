//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/cluster/objects/state/statetest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// database is one server for all tests; each store has a table of its own.
type database struct {
	*pgserver.Server
	pool *pgxpool.Pool
	ctx  context.Context
	last *atomic.Int64
}

func start(t testing.TB) database {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	d := database{Server: pgserver.StartForTest(t), ctx: ctx, last: &atomic.Int64{}}
	d.pool = d.connect(t, "")
	return d
}

func (d database) connect(t testing.TB, options string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(d.ctx, d.URL()+options)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (d database) store(t testing.TB, change ...func(*postgres.Config)) *postgres.Store {
	t.Helper()
	cfg := postgres.Config{DB: d.pool, Table: fmt.Sprintf("public.objects_%d", d.last.Add(1)),
		RequestTimeout: patience}
	for _, c := range change {
		c(&cfg)
	}
	require.NoError(t, postgres.CreateTables(d.ctx, cfg.DB, cfg.Table))
	s, err := postgres.New(cfg)
	require.NoError(t, err)
	return s
}

// owner is one activation of the object "it".
type owner int64

func (owner) Service() string { return "test.Counters" }
func (owner) Key() string     { return "it\x00" }
func (o owner) Epoch() int64  { return int64(o) }

type counter = state.State[*wrapperspb.Int64Value]

func (d database) load(t testing.TB, store state.Store, epoch owner) *counter {
	t.Helper()
	s, err := state.Load(d.ctx, store, epoch, &wrapperspb.Int64Value{})
	require.NoError(t, err)
	return s
}

func (d database) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := d.pool.Exec(d.ctx, sql, args...)
	require.NoError(t, err)
}

func (d database) count(t testing.TB, from string) (n int) {
	t.Helper()
	require.NoError(t, d.pool.QueryRow(d.ctx, "select count(*) from "+from).Scan(&n))
	return n
}

// increment returns a call that returns the new value.
func increment(s *counter) func(context.Context) (*wrapperspb.Int64Value, error) {
	return func(context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value++
		return wrapperspb.Int64(s.Value().Value), nil
	}
}

func TestPostgres(t *testing.T) {
	d := start(t)
	t.Run("conforms", func(t *testing.T) {
		statetest.Run(t, func(t *testing.T) state.Store { return d.store(t) })
	})
	for _, level := range []string{"repeatable%20read", "serializable"} {
		t.Run("conforms where transactions are "+level, func(t *testing.T) {
			pool := d.connect(t, "&default_transaction_isolation="+level)
			statetest.Run(t, func(t *testing.T) state.Store {
				return d.store(t, func(c *postgres.Config) { c.DB = pool })
			})
		})
	}
	t.Run("tables are made once", d.tables)
	t.Run("configurations", d.configurations)
	t.Run("one connection will do", d.oneConnection)
	t.Run("a paused owner", d.pausedOwner)
	t.Run("retention", d.retention)
	t.Run("a transaction", d.inTx)
	t.Run("a transaction that fails", d.inTxFails)
	t.Run("a transaction whose commit is refused", d.commitRefused)
	t.Run("a transaction whose outcome is not known", d.commitLost)
	t.Run("a transaction of a process that stands still", d.idleTx)
	t.Run("a call in a transaction", d.doInTx)
	t.Run("a transaction of the caller's", d.withTx)
	t.Run("a session that ends in a save", d.terminated)
	t.Run("a session that ends after a save", d.lostAnswer)
	t.Run("a save that is carried out after its caller has left", d.delayed)
	t.Run("a pool without connections", d.noConnection)
	t.Run("a server that is away", d.away)
}

func (d database) tables(t *testing.T) {
	pool := d.connect(t, "&pool_max_conns=16")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { assert.NoError(t, postgres.CreateTables(d.ctx, pool, "")) })
	}
	wg.Wait()
	require.NoError(t, postgres.CreateTables(d.ctx, pool, ""), "again")
	require.NoError(t, postgres.CreateTables(d.ctx, pool, "public."+strings.Repeat("x", 55)))
	require.Error(t, postgres.CreateTables(d.ctx, pool, "no_such_schema.objects"))
	require.ErrorIs(t, postgres.CreateTables(d.ctx, pool, "Objects"), state.ErrBadConfig)
	store, err := postgres.New(postgres.Config{DB: pool})
	require.NoError(t, err)
	s := d.load(t, store, 1)
	s.Value().Value = 1
	require.NoError(t, s.Save(d.ctx))
	forgot, err := postgres.New(postgres.Config{DB: pool, Table: "forgotten"})
	require.NoError(t, err)
	_, err = forgot.Load(d.ctx, s.Ref(), 1)
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.ErrorContains(t, err, "make the tables with CreateTables")
	_, err = forgot.Save(d.ctx, s.Ref(), state.Write{Version: 1, Epoch: 1})
	require.ErrorIs(t, err, state.ErrUnavailable)
	_, _, err = forgot.Reply(d.ctx, s.Ref(), "1")
	require.ErrorIs(t, err, state.ErrUnavailable)
}

func (d database) configurations(t *testing.T) {
	require.NoError(t, postgres.Config{DB: d.pool}.Validate())
	for _, bad := range []postgres.Config{{}, {DB: d.pool, Table: "a b"}, {DB: d.pool, Table: strings.Repeat("x", 56)},
		{DB: d.pool, Retention: -1}, {DB: d.pool, RequestTimeout: -1}, {DB: d.pool, MaxBytes: -1}} {
		_, err := postgres.New(bad)
		require.ErrorIs(t, err, state.ErrBadConfig)
	}
	store := d.store(t, func(c *postgres.Config) { c.MaxBytes = 100 })
	s, err := state.Load(d.ctx, store, owner(1), &wrapperspb.StringValue{})
	require.NoError(t, err)
	s.Value().Value = strings.Repeat("x", 101)
	require.ErrorIs(t, s.Save(d.ctx), state.ErrTooLarge)
	require.NoError(t, s.Err())
	require.Empty(t, s.Value().Value)
	require.NoError(t, s.Save(d.ctx))
}

func (d database) oneConnection(t *testing.T) {
	conn, err := pgx.Connect(d.ctx, d.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(d.ctx)) }()
	store := d.store(t, func(c *postgres.Config) { c.DB = conn })
	s := d.load(t, store, 1)
	require.NoError(t, store.InTx(d.ctx, s, func(ctx context.Context, _ pgx.Tx) error {
		_, err := state.Do(ctx, s, "a", increment(s))
		return err
	}))
	_, err = state.Do(d.ctx, s, "b", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 2, d.load(t, store, 2).Value().Value)
}

func (d database) pausedOwner(t *testing.T) {
	store := d.store(t)
	old := d.load(t, store, 1)
	now := d.load(t, store, 2)
	_, err := state.Do(d.ctx, old, "a", increment(old))
	require.ErrorIs(t, err, state.ErrFenced)
	_, err = state.Do(d.ctx, now, "a", increment(now))
	require.NoError(t, err)
	require.ErrorIs(t, old.Reload(d.ctx), state.ErrFenced)
	require.EqualValues(t, 1, d.load(t, store, 2).Value().Value)
}

// Expired replies and claims are invisible and are removed by later saves. Others stay.
func (d database) retention(t *testing.T) {
	var table string
	store := d.store(t, func(c *postgres.Config) { table = c.Table; c.Retention = time.Hour })
	s := d.load(t, store, 1)
	for i := range 5 {
		_, err := state.Do(d.ctx, s, fmt.Sprint("old ", i), increment(s))
		require.NoError(t, err)
	}
	const claims = 100
	for i := range claims {
		_, err := store.Load(d.ctx, state.Ref{Service: "test.Counters", Key: fmt.Sprint(i)}, 1)
		require.NoError(t, err)
	}
	d.exec(t, "update "+table+"_replies set created_at = now() - interval '1 h'")
	d.exec(t, "update "+table+" set empty_since = now() - interval '1 h', epoch = 1 where empty_since is not null")
	recent := state.Ref{Service: "test.Counters", Key: "recent"}
	r, err := store.Load(d.ctx, recent, 1)
	require.NoError(t, err)
	reply, err := state.Do(d.ctx, s, "old 1", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 6, reply.Value, "it is not known any more")
	for i := range 100 {
		_, err := state.Do(d.ctx, s, fmt.Sprint("new ", i), increment(s))
		require.NoError(t, err)
	}
	reply, err = state.Do(d.ctx, s, "old 1", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 6, reply.Value)
	require.Equal(t, 101, d.count(t, table+"_replies"))
	require.Equal(t, 2, d.count(t, table))
	_, err = store.Save(d.ctx, recent, state.Write{Version: r.Version, Epoch: 1})
	require.NoError(t, err)
	s = d.load(t, store, 1)
	require.EqualValues(t, 106, s.Value().Value)

	// A claim that was removed is noticed and made again.
	require.NoError(t, s.Delete(d.ctx))
	d.exec(t, "delete from "+table)
	require.ErrorIs(t, s.Save(d.ctx), state.ErrConflict)
	require.NoError(t, s.Reload(d.ctx))
	require.NoError(t, s.Save(d.ctx))
}
