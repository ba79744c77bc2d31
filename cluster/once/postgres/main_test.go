//go:build unix

package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/oncetest"
	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = time.Minute

func TestMain(m *testing.M) {
	if url := os.Getenv(workerURL); url != "" {
		if err := work(url); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	leaktest.SetParallel()
	goleak.VerifyTestMain(shared.Tests(m))
}

// shared is the server of the tests that do not stop it.
var shared pgserver.Shared

var owners atomic.Int64

// testBed is a database.
type testBed struct {
	*testing.T
	ctx   context.Context
	url   string
	admin *pgx.Conn
}

func newTestBed(t *testing.T) *testBed {
	t.Helper()
	return newTestBedAt(t, shared.Database(t).URL())
}

// newTestBedAt returns a test bed in a database that exists.
func newTestBedAt(t *testing.T, url string) *testBed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &testBed{T: t, ctx: ctx, url: url}
	var err error
	s.admin, err = pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.admin.Close(context.Background())) })
	return s
}

// exec executes a statement, and returns the number of rows that it concerned.
func (s *testBed) exec(sql string, args ...any) int64 {
	s.Helper()
	tag, err := s.admin.Exec(s.ctx, sql, args...)
	require.NoError(s, err)
	return tag.RowsAffected()
}

// count returns the result of a query for a number.
func (s *testBed) count(sql string, args ...any) (n int) {
	s.Helper()
	require.NoError(s, s.admin.QueryRow(s.ctx, sql, args...).Scan(&n))
	return n
}

func (s *testBed) eventually(done func() bool) {
	s.Helper()
	require.Eventually(s, done, patience, 5*time.Millisecond)
}

// process is one process with its session and its pool.
type process struct {
	*postgres.Effects
	owner string // its name, and that of the session's connections
	pool  *pgxpool.Pool
}

// steady is the deadline of sessions that are not to be lost.
const steady = 10 * time.Second

// start starts a process. Its session goes to the database, and its pool to url. A deadline of 0 means steady.
func (s *testBed) start(url string, deadline time.Duration) *process {
	s.Helper()
	p := &process{owner: fmt.Sprint("process-", owners.Add(1))}
	session, err := pgsession.Open(s.ctx, pgsession.Config{URL: s.url + "&application_name=" + p.owner,
		Deadline: cmp.Or(deadline, steady), Owner: p.owner})
	require.NoError(s, err)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(s, err)
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // its answer may be held back
	p.pool, err = pgxpool.NewWithConfig(s.ctx, cfg)
	require.NoError(s, err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(s, session.Close(ctx))
		p.pool.Close()
	})
	p.Effects, err = postgres.New(session, postgres.Config{DB: p.pool})
	require.NoError(s, err)
	require.NoError(s, p.CreateTable(s.ctx))
	return p
}

// two starts two processes.
func (s *testBed) two() (a, b *process) {
	s.Helper()
	return s.start(s.url, 0), s.start(s.url, 0)
}

func TestConforms(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, b })
}

func TestOneProcessConforms(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a := s.start(s.url, 0)
	oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, a })
}

// The default isolation level of the pool's connections does not matter.
func TestConformsWithStricterIsolation(t *testing.T) {
	pace.Parallel(t)
	for _, level := range []string{"serializable", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			pace.Parallel(t)
			s := newTestBed(t)
			url := s.url + "&default_transaction_isolation=" + strings.ReplaceAll(level, " ", "%20")
			a, b := s.start(url, 0), s.start(url, 0)
			oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, b })
		})
	}
}

// The pool may go to a pooler of transactions, although the session may not.
func TestConformsWithAPoolerOfTransactions(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t) // the pooler serves the database postgres only
	url := db.PooledForTest(t, "transaction") + "&default_query_exec_mode=exec"
	s := newTestBedAt(t, db.URL())
	a, b := s.start(url, 0), s.start(url, 0)
	oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, b })
}

var errRefused = errors.New("the mail server is away")

// counts returns an effect that counts its runs.
func counts(n *atomic.Int32, value string) func(context.Context, int64) ([]byte, error) {
	return func(context.Context, int64) ([]byte, error) {
		n.Add(1)
		return []byte(value), nil
	}
}

func never(context.Context, int64) ([]byte, error) { panic("it must not run") }

// requireUnknown checks an error, and returns the attempt's token.
func requireUnknown(t *testing.T, err error, by string) int64 {
	t.Helper()
	require.ErrorIs(t, err, once.ErrUnknown)
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, by, unknown.By)
	return unknown.Token
}
