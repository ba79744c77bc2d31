//go:build unix

package claims

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = time.Minute

// steady is the deadline of sessions that are not to be lost.
const steady = 10 * time.Second

// short is the deadline of sessions that are to be lost soon. A busy machine may lose them at any time.
var short = pace.TTL(600 * time.Millisecond)

// shared is the server of the tests that neither stop nor configure it.
var shared pgserver.Shared

// server is a server of a test's own, or a database of the shared one.
type server interface {
	URL() string
	Address() string
}

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
	p.Keeper = openKeeper(t, config(at, deadline, p.log))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = p.Close(ctx) // the server may be gone
	})
	return p
}

// openKeeper opens a keeper. With a short deadline a busy server may answer a request too late; then it tries again.
func openKeeper(t testing.TB, cfg Config) *Keeper {
	t.Helper()
	ctx := patient(t)
	k, err := Open(ctx, cfg)
	for pgconn.Timeout(err) && ctx.Err() == nil {
		k, err = Open(ctx, cfg)
	}
	require.NoError(t, err)
	return k
}

func config(at string, deadline time.Duration, log *logtest.Buffer) Config {
	return Config{Deadline: deadline, Owner: "test", Logger: log.Logger(),
		Connect: func(context.Context) (*pgx.ConnConfig, error) { return pgx.ParseConfig(at) }}
}

// through returns a server's URL with another address.
func through(t testing.TB, db server, address string) string {
	t.Helper()
	u, err := url.Parse(db.URL())
	require.NoError(t, err)
	u.Host = address
	return u.String()
}

var roles atomic.Int64

// newUser creates a role that may use the tables.
func newUser(t testing.TB, db server) (name string) {
	t.Helper()
	name = fmt.Sprint("role", roles.Add(1))
	execute(t, db, "CREATE ROLE "+name+" LOGIN")
	execute(t, db, "GRANT USAGE ON SCHEMA goverse TO "+name)
	execute(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA goverse TO "+name)
	return name
}

// as returns a URL with another user.
func as(t testing.TB, role, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	u.User = url.User(role)
	return u.String()
}

// waitsForLock selects the rows of pg_stat_activity of connections to this database that wait for a lock.
const waitsForLock = "wait_event_type = 'Lock' AND datname = current_database()"

func execute(t testing.TB, db server, sql string, args ...any) {
	t.Helper()
	conn := connect(t, db.URL())
	defer func() { require.NoError(t, conn.Close(patient(t))) }()
	_, err := conn.Exec(patient(t), sql, args...)
	require.NoError(t, err)
}

// idle holds a connection by URL for query, which may ask every millisecond.
var idle sync.Map

// query returns the value of a query, whatever has happened to the server before.
func query[T any](t testing.TB, db server, sql string, args ...any) (value T) {
	t.Helper()
	at := db.URL()
	if kept, ok := idle.LoadAndDelete(at); ok {
		conn := kept.(*pgx.Conn)
		if conn.QueryRow(patient(t), sql, args...).Scan(&value) == nil {
			idle.Store(at, conn)
			return value
		}
		_ = conn.Close(patient(t)) // it may have been lost in a restart
	}
	conn := connect(t, at)
	require.NoError(t, conn.QueryRow(patient(t), sql, args...).Scan(&value))
	if _, busy := idle.LoadOrStore(at, conn); busy {
		require.NoError(t, conn.Close(patient(t)))
	}
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

// releaseShort releases a claim of a session with the deadline short, which may have been lost.
func releaseShort(t testing.TB, c *Claim) {
	t.Helper()
	_, err := c.Release(patient(t))
	require.NoError(t, err)
}

// session returns the present session, once there is one.
func (p *process) session(t testing.TB) *Session {
	t.Helper()
	s, err := p.await(patient(t))
	require.NoError(t, err)
	return s
}

// terminate ends the server process of a session's main connection, unless it has ended.
func terminate(t testing.TB, db server, s *Session) {
	t.Helper()
	query[int](t, db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $1", s.main.pid)
}

// startWaiter starts a caller that waits for a name. It returns when the server has its claim, or has granted it
// because the holder was lost meanwhile.
func (p *process) startWaiter(t testing.TB, db server, spec Spec) <-chan *Claim {
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
	require.Eventually(t, func() bool { return query[int](t, db, waiting, spec.Name) > before || len(got) > 0 },
		patience, time.Millisecond)
	return got
}

// granted returns the claim that a waiter gets, and when.
func granted(t testing.TB, got <-chan *Claim) (*Claim, time.Time) {
	t.Helper()
	c := <-got
	require.NotNil(t, c, "it was not granted")
	return c, time.Now()
}
