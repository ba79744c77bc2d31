//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/checkpointtest"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// testBed is a database; each part of the test has a table of its own.
type testBed struct {
	server *pgserver.Server
	pool   *pgxpool.Pool
	last   atomic.Int64
}

func newTestBed(t *testing.T) *testBed {
	db := pgserver.StartForTest(t)
	pool, err := pgxpool.New(context.Background(), db.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &testBed{server: db, pool: pool}
}

// One server serves all parts of a test. Those that wait have another one than those that conform.
func TestPostgres(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	t.Run("conforms", s.conforms)
	t.Run("conforms at any isolation", s.isolated)
	t.Run("tables of an earlier release", s.oldTables)
	t.Run("each event takes effect once", s.onceEach)
	t.Run("what a commit refuses", s.refused)
	t.Run("text that it cannot take", s.badText)
	t.Run("tokens found at once", s.foundAtOnce)
	t.Run("partitions over shards", s.partitions)
	t.Run("misuse", s.misused)
	t.Run("a database that is away", s.away)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	t.Run("a paused leader", s.pausedLeader)
	t.Run("an idle transaction", s.idle)
	t.Run("a transaction that is slow", s.slow)
	t.Run("trouble inside a handler", s.inHandler)
	t.Run("a database that does not answer", s.silent)
	t.Run("answers that are lost", s.lost)
	t.Run("a claim that comes late", s.lateClaim)
}

func TestLeaders(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	t.Run("requests under load", s.load)
	t.Run("fail-over", s.failover)
	t.Run("electors as leader locks", s.overElectors)
}

// Another server, on which no interrupted connection has left a transaction open: it would delay the events.
func TestSource(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	t.Run("what a table is read by", s.readers)
	t.Run("transactions of all kinds", s.allKinds)
	t.Run("order of one row", s.orderOfOneRow)
	t.Run("who writes wakes", s.listens)
	t.Run("lag of a table", s.lags)
	t.Run("a database that falls silent", s.silentSource)
	t.Run("values of all types", s.values)
	t.Run("a large batch", s.largeBatch)
	t.Run("a table that was there before", s.oldTable)
	t.Run("a table from a dump", s.restored)
	t.Run("bad sources", s.badSources)
	t.Run("numbers past 32 bits", s.epochs)
}

// checkpoints returns a new checkpoint with a table of its own.
func (s *testBed) checkpoints(t *testing.T, change ...func(*postgres.Config)) *postgres.Checkpoint {
	t.Helper()
	cfg := postgres.Config{DB: s.pool, Table: fmt.Sprintf("public.checkpoints_%d", s.last.Add(1))}
	for _, c := range change {
		c(&cfg)
	}
	c, err := postgres.New(cfg)
	require.NoError(t, err)
	require.NoError(t, c.CreateTables(etcdtest.Context(t)))
	return c
}

// The suite also passes with a stricter isolation level than PostgreSQL's default.
func (s *testBed) isolated(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			cfg, err := pgxpool.ParseConfig(s.server.URL())
			require.NoError(t, err)
			cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			pool, err := pgxpool.NewWithConfig(etcdtest.Context(t), cfg)
			require.NoError(t, err)
			defer pool.Close()
			checkpointtest.Run(t, true, func(t *testing.T) (a, b checkpointtest.Checkpoint) {
				c := s.checkpoints(t, func(c *postgres.Config) { c.DB = pool })
				return c, c
			})
		})
	}
}

func (s *testBed) conforms(t *testing.T) {
	checkpointtest.Run(t, true, func(t *testing.T) (a, b checkpointtest.Checkpoint) {
		c := s.checkpoints(t)
		return c, c
	})
}

// Tables of a release without requests keep their content and get what they lack.
func (s *testBed) oldTables(t *testing.T) {
	ctx := etcdtest.Context(t)
	_, err := s.pool.Exec(ctx, `create table old (name text primary key, position text not null, token bigint not null,
	version bigint not null, changed timestamptz not null default now());
create table old_parked (name text not null, position text not null, error text not null, attempts int not null,
	token bigint not null, parked timestamptz not null, number bigserial not null, primary key (name, position));
insert into old values ('it', '7', 3, 12);
insert into old_parked values ('it', '5', 'oops', 10, 3, now())`)
	require.NoError(t, err)
	c, err := postgres.New(postgres.Config{DB: s.pool, Table: "old"})
	require.NoError(t, err)
	_, err = c.Claim(ctx, "it", 4)
	require.ErrorContains(t, err, "CreateTables")
	require.NoError(t, c.CreateTables(ctx))
	m, err := c.Claim(ctx, "it", 4)
	require.NoError(t, err)
	require.Equal(t, processor.Mark{Position: "7", Token: 4, Version: 13, Claim: 1}, m)
	require.NoError(t, c.RequestRetry(ctx, "it", "5"))
	parked, err := c.Parked(ctx, "it")
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.True(t, parked[0].Retry)
	// Again without a lock on the tables: a transaction that uses them does not hold it up.
	tx, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "lock table old, old_parked, old_status in row exclusive mode")
	require.NoError(t, err)
	require.NoError(t, c.CreateTables(ctx))
	require.NoError(t, tx.Rollback(ctx))
}
