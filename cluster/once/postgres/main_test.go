//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/oncetest"
	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
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
	goleak.VerifyTestMain(m)
}

var owners atomic.Int64

// testBed is a database.
type testBed struct {
	*testing.T
	ctx context.Context
	db  *pgserver.Server
}

func newTestBed(t *testing.T) *testBed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &testBed{t, ctx, pgserver.StartForTest(t)}
}

// process is one process with its session and its pool.
type process struct {
	*postgres.Effects
	owner string
	pool  *pgxpool.Pool
}

// start starts a process. Its session goes to the server, and its pool to url.
func (s *testBed) start(t *testing.T, url string, deadline time.Duration) *process {
	t.Helper()
	p := &process{owner: fmt.Sprint("process ", owners.Add(1))}
	session, err := pgsession.Open(s.ctx, pgsession.Config{URL: s.db.URL(), Deadline: deadline, Owner: p.owner})
	require.NoError(t, err)
	p.pool, err = pgxpool.New(s.ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, session.Close(ctx))
		p.pool.Close()
	})
	p.Effects, err = postgres.New(session, postgres.Config{DB: p.pool})
	require.NoError(t, err)
	require.NoError(t, p.CreateTable(s.ctx))
	return p
}

// two starts two processes.
func (s *testBed) two() (a, b *process) {
	s.Helper()
	return s.start(s.T, s.db.URL(), 0), s.start(s.T, s.db.URL(), 0)
}

func TestConforms(t *testing.T) {
	s := newTestBed(t)
	a, b := s.two()
	oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, b })
}

func TestOneProcessConforms(t *testing.T) {
	s := newTestBed(t)
	a := s.start(t, s.db.URL(), 0)
	oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, a })
}

// Whatever isolation level the pool's connections have by default, and behind a pooler of transactions.
func TestConformsWithOtherPools(t *testing.T) {
	s := newTestBed(t)
	for i, url := range []string{
		s.db.URL() + "&default_transaction_isolation=serializable",
		s.db.URL() + "&default_transaction_isolation=repeatable%20read",
		s.db.PooledForTest(t) + "&default_query_exec_mode=exec",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			a, b := s.start(t, url, 0), s.start(t, url, 0)
			_, err := a.pool.Exec(s.ctx, "delete from goverse.effect")
			require.NoError(t, err)
			oncetest.Run(t, func(t *testing.T) (once.Registry, once.Registry) { return a, b })
		})
	}
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
