//go:build unix

package claims

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = time.Minute

// process is a keeper with its log.
type process struct {
	*Keeper
	log *logtest.Buffer
}

// patient returns a context that ends when a test has waited for too long.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens a keeper at the URL, which is closed with the test.
func open(t testing.TB, at string, deadline time.Duration) *process {
	t.Helper()
	p := &process{log: &logtest.Buffer{}}
	k, err := Open(patient(t), config(at, deadline, p.log))
	require.NoError(t, err)
	p.Keeper = k
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = k.Close(ctx) // the server may be gone
	})
	return p
}

func config(at string, deadline time.Duration, log *logtest.Buffer) Config {
	return Config{Deadline: deadline, Owner: "test", Logger: log.Logger(),
		Connect: func(context.Context) (*pgx.ConnConfig, error) { return pgx.ParseConfig(at) }}
}

// through returns a server's URL with another address.
func through(t testing.TB, db *pgserver.Server, address string) string {
	t.Helper()
	u, err := url.Parse(db.URL())
	require.NoError(t, err)
	u.Host = address
	return u.String()
}

// query returns the value of a query on a connection of its own.
func query[T any](t testing.TB, db *pgserver.Server, sql string, args ...any) (value T) {
	t.Helper()
	conn := connect(t, db.URL())
	defer func() { require.NoError(t, conn.Close(patient(t))) }()
	require.NoError(t, conn.QueryRow(patient(t), sql, args...).Scan(&value))
	return value
}

func connect(t testing.TB, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(patient(t), at)
	require.NoError(t, err)
	return conn
}

func (p *process) acquire(t testing.TB, spec Spec) *Claim {
	t.Helper()
	c, err := p.Acquire(patient(t), spec)
	require.NoError(t, err)
	return c
}

func release(t testing.TB, c *Claim) {
	t.Helper()
	lost, err := c.Release(patient(t))
	require.NoError(t, err)
	require.NoError(t, lost)
}

// startWaiter starts a caller that waits for a name. It returns when the server has its claim.
func (p *process) startWaiter(t testing.TB, db *pgserver.Server, spec Spec) <-chan *Claim {
	t.Helper()
	const waiting = "SELECT count(*) FROM goverse.claim WHERE name = $1 AND token IS NULL"
	before := query[int](t, db, waiting, spec.Name)
	got := make(chan *Claim, 1)
	ctx := patient(t)
	go func() {
		defer close(got)
		if c, err := p.Acquire(ctx, spec); err == nil {
			got <- c
		}
	}()
	require.Eventually(t, func() bool { return query[int](t, db, waiting, spec.Name) > before }, patience,
		time.Millisecond)
	return got
}

// granted returns the claim that a waiter gets, and when.
func granted(t testing.TB, got <-chan *Claim) (*Claim, time.Time) {
	t.Helper()
	c := <-got
	require.NotNil(t, c, "it was not granted")
	return c, time.Now()
}
