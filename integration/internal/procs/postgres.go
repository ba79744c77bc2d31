//go:build unix

package procs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// databaseStart limits the creation of a database.
const databaseStart = time.Minute

// postgres is one server for all tests that leave the server itself alone, because creating a server takes
// longer than some of the tests.
type postgres struct {
	mu        sync.Mutex
	server    *pgserver.Server // created by the first call
	err       error
	databases int
}

// create creates a database and returns its URL.
func (p *postgres) create(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil && p.err == nil {
		p.server, p.err = pgserver.Start("-c", "fsync=off") // durability is not tested
	}
	if p.err != nil {
		return "", p.err
	}
	conn, err := pgx.Connect(ctx, p.server.URL())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }() // no request is in flight
	p.databases++
	name := fmt.Sprintf("test%d", p.databases)
	_, err = conn.Exec(ctx, "create database "+name)
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.server.Address(), name), err
}

func (p *postgres) close() error {
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}

// Database creates an empty database on a PostgreSQL server that other tests share, and returns its URL. If
// PostgreSQL is not installed the test is skipped, or fails if GOVERSE_REQUIRE names postgres.
func (k *Kit) Database(t testing.TB) (url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), databaseStart)
	defer cancel()
	url, err := k.postgres.create(ctx)
	if errors.Is(err, pgserver.ErrNotInstalled) {
		needed.Missing(t, "postgres", err.Error())
	}
	require.NoError(t, err)
	return url
}
