//go:build unix

package pgnode_test

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

	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = time.Minute

// shared is the server of all tests but those that restart one; nil where PostgreSQL is not installed.
var shared *pgserver.Server

func TestMain(m *testing.M) {
	if os.Getenv(envURL) != "" {
		runNode()
	}
	s, err := pgserver.Start("-c", "fsync=off", "-c", "autovacuum=off", "-c", "max_connections=300")
	if err != nil && !errors.Is(err, pgserver.ErrNotInstalled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = s
	code := m.Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var schemas atomic.Int64

// newSchema returns the name of a schema of the shared server for one test.
func newSchema(t testing.TB) string {
	t.Helper()
	if shared == nil {
		needed.Missing(t, "postgres", pgserver.ErrNotInstalled.Error())
	}
	return fmt.Sprintf("nodes %d", schemas.Add(1))
}

// patient returns a context that ends when a test has waited for too long.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newPool returns a pool of connections to a server.
func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(patient(t), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
