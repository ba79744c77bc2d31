//go:build unix

package claims

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// in changes the schema of a configuration.
func in(schema string) func(*Config) { return func(c *Config) { c.Schema = schema } }

func openWith(t testing.TB, at string, deadline time.Duration, change func(*Config)) *process {
	t.Helper()
	p := &process{log: &logtest.Buffer{}}
	cfg := config(at, deadline, p.log)
	change(&cfg)
	p.Keeper = openKeeper(t, cfg)
	t.Cleanup(func() { require.NoError(t, p.Close(patient(t))) })
	return p
}

// Whatever an administrator has set for the role, sessions behave the same.
func TestSettingsOfTheRole(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	execute(t, db, SchemaSQL(DefaultSchema))
	for _, setting := range []string{
		"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on",
		"synchronous_commit = off", "statement_timeout = '1s'", "lock_timeout = '10ms'",
		"idle_in_transaction_session_timeout = '1s'", "idle_session_timeout = '1s'", "search_path = 'nowhere'",
		"row_security = off", "client_encoding = 'LATIN1'", "standard_conforming_strings = off",
		"transform_null_equals = on", "DateStyle = 'German'", "IntervalStyle = 'sql_standard'", "TimeZone = 'Asia/Tokyo'",
		"plan_cache_mode = 'force_generic_plan'", "enable_indexscan = off", "jit_above_cost = 0",
	} {
		role := newUser(t, db)
		execute(t, db, "ALTER ROLE "+role+" SET "+setting)
		t.Run(setting, func(t *testing.T) {
			pace.Parallel(t)
			a, b := open(t, as(t, role, db.URL()), steady), open(t, as(t, role, db.URL()), steady)
			first, name := a.Current(), `é日\'"`+t.Name()
			held := a.acquire(t, Spec{Name: name})
			got := make(chan *Claim, 1)
			ctx := patient(t)
			go func() { c, _ := b.Acquire(ctx, Spec{Name: name}); got <- c }()
			const beat = "SELECT coalesce(max(beat), 0) FROM goverse.session WHERE id = $1"
			require.Eventually(t, func() bool { return query[int64](t, db, beat, first.id) >= 1 }, patience, time.Millisecond,
				"it was idle for longer than the time-outs of the role")
			require.Empty(t, got)
			require.True(t, held.Valid())
			// The time-outs of this connection concern its user.
			conn := connect(t, as(t, role, db.URL())+"&statement_timeout=0&lock_timeout=0&idle_session_timeout=0")
			stands, err := held.LockRow(patient(t), conn)
			require.NoError(t, err)
			require.True(t, stands)
			require.NoError(t, conn.Close(patient(t)))
			release(t, held)
			c := <-got
			require.NotNil(t, c)
			require.Greater(t, c.Token(), held.Token())
			release(t, c)
			require.Same(t, first, a.Current())
		})
	}
	role := newUser(t, db)
	execute(t, db, "ALTER ROLE "+role+" SET default_transaction_read_only = on")
	var log logtest.Buffer
	_, err := Open(patient(t), config(as(t, role, db.URL()), steady, &log))
	require.ErrorIs(t, err, ErrStandby)
}

// Two schemas in one database have nothing to do with each other.
func TestTwoSchemas(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	const odd = `An "odd" schema; --`
	a, b := open(t, db.URL(), steady), openWith(t, db.URL(), steady, in(odd))
	heldA, heldB := a.acquire(t, Spec{Name: "election/it"}), b.acquire(t, Spec{Name: "election/it"})
	next := openWith(t, db.URL(), steady, in(odd))
	queue := a.Follow("election/it")
	defer queue.Close()
	got := make(chan *Claim, 1)
	go func() { c, _ := next.Acquire(patient(t), Spec{Name: "election/it"}); got <- c }()
	waiting := "SELECT count(*) FROM " + pgx.Identifier{odd}.Sanitize() + ".claim WHERE token IS NULL"
	require.Eventually(t, func() bool { return query[int](t, db, waiting) == 1 }, patience, time.Millisecond)
	release(t, heldA)
	require.Empty(t, got)
	release(t, heldB)
	c := <-got
	require.NotNil(t, c)
	require.Eventually(t, func() bool { return len(queue.Entries()) == 0 }, patience, time.Millisecond)
	release(t, c)
}

// A name that does not fit into an index is refused at once, and others are not held up.
func TestNameIsTooLong(t *testing.T) {
	pace.Parallel(t)
	p := open(t, shared.Database(t).URL(), steady)
	long := make([]byte, 8<<10) // with NUL, and no compression makes it fit
	for i := range long {
		long[i] = byte(rand.IntN(256))
	}
	got := make(chan error, 1)
	ctx := patient(t)
	go func() { _, err := p.Acquire(ctx, Spec{Name: string(long)}); got <- err }()
	release(t, p.acquire(t, Spec{Name: "it"}))
	err := <-got
	require.Error(t, err)
	require.False(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	require.ErrorContains(t, err, "index row")
	release(t, p.acquire(t, Spec{Name: "it"}))
}

// A session is lost while the server has no connection left. Others get what it held, and it is opened again when there
// is one.
func TestNoConnectionsAreLeft(t *testing.T) {
	pace.Parallel(t)
	db, err := pgserver.Start("-c", "fsync=off", "-c", "autovacuum=off", "-c", "max_connections=15")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	execute(t, db, SchemaSQL(DefaultSchema))
	at := as(t, newUser(t, db), db.URL()) // superusers have connections of their own
	a, b := open(t, at, short), open(t, at, steady)
	held := a.acquire(t, Spec{Name: "it"})
	got := b.startWaiter(t, db, Spec{Name: "it"})
	var hogs []*pgx.Conn
	take := func() {
		for {
			conn, err := pgx.Connect(patient(t), at)
			if err != nil {
				require.ErrorContains(t, err, "53300")
				return
			}
			hogs = append(hogs, conn)
		}
	}
	take()
	for !strings.Contains(a.log.String(), "could not open a session, retrying") {
		if s := a.Current(); s != nil { // it may have got its connections back
			terminate(t, db, s)
		}
		take() // those that the session had
	}
	c, _ := granted(t, got)
	require.False(t, held.Valid())
	require.Equal(t, 1, a.log.Count("could not open a session, retrying"))
	release(t, c)
	for _, conn := range hogs {
		require.NoError(t, conn.Close(patient(t)))
	}
	release(t, a.acquire(t, Spec{Name: "it"}))
}
