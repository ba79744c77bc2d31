//go:build unix

package doctor

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// pgBench is a server with a connection of an administrator.
type pgBench struct {
	*testing.T
	db    *pgserver.Server
	admin *pgx.Conn
}

func newPGBench(t *testing.T) *pgBench {
	t.Helper()
	t.Parallel()
	b := &pgBench{T: t, db: pgserver.StartForTest(t)}
	b.admin = b.connect(b.db.URL())
	return b
}

func (b *pgBench) connect(at string) *pgx.Conn {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), at)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (b *pgBench) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.admin.Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (b *pgBench) open(at, owner string, deadline time.Duration) *pgsession.Session {
	b.Helper()
	s, err := pgsession.Open(b.Context(), pgsession.Config{URL: at, Owner: owner, Deadline: deadline})
	require.NoError(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.Close(ctx) // it may be cut off
	})
	return s
}

// diagnose returns the findings with the check and the severity, as in "server ok".
func (b *pgBench) diagnose(at string, deadline time.Duration) map[string][]diagnosis.Finding {
	b.Helper()
	all := map[string][]diagnosis.Finding{}
	for _, f := range diagnosis.DiagnosePostgres(ExaminePostgres(b.Context(), PostgresConfig{
		Session: pgsession.Config{URL: at, Deadline: deadline}, Timeout: time.Minute})) {
		key := f.Check + " " + f.Severity.String()
		all[key] = append(all[key], f)
		require.True(b, f.Severity <= diagnosis.Note || f.Remedy != "", f)
		require.NotContains(b, f.Description+f.Remedy, "\n")
	}
	return all
}

func requireFinding(t testing.TB, all map[string][]diagnosis.Finding, key string, says ...string) {
	t.Helper()
	require.NotEmpty(t, all[key], "%s, in %v", key, all)
	for _, s := range says {
		require.True(t, slices.ContainsFunc(all[key], func(f diagnosis.Finding) bool {
			return strings.Contains(f.Description+" "+f.Remedy, s)
		}), "%q in %v", s, all[key])
	}
}

// with returns the server's URL with another user or address.
func (b *pgBench) with(change func(u *url.URL)) string {
	b.Helper()
	u, err := url.Parse(b.db.URL())
	require.NoError(b, err)
	change(u)
	return u.String()
}

func TestHealthyPostgres(t *testing.T) {
	b := newPGBench(t)
	all := b.diagnose(b.db.URL(), 0)
	requireFinding(t, all, "server ok", "takes writes, as the user postgres")
	requireFinding(t, all, "schema note", "the schema goverse has no tables: the first session makes them")
	requireFinding(t, all, "durability warning", "fsync is off")
	for _, owner := range []string{"a", "b"} {
		n, err := pgnode.Join(t.Context(), b.open(b.db.URL(), owner, 10*time.Second), pgnode.Config{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return n.Status().LeaderID == "a" }, time.Minute, time.Millisecond)
	}
	all = b.diagnose(b.db.URL(), 10*time.Second)
	requireFinding(t, all, "schema ok")
	requireFinding(t, all, "access ok")
	requireFinding(t, all, "epoch ok")
	requireFinding(t, all, "sessions ok", "2 sessions, each with heartbeats")
	requireFinding(t, all, "claims ok", "1 granted, 1 waiting")
	requireFinding(t, all, "nodes ok", "2 nodes")
	requireFinding(t, all, "leader ok", "leader by a")
	requireFinding(t, all, "connections ok")
	requireFinding(t, all, "latency ok")
	requireFinding(t, all, "clocks ok")
	requireFinding(t, all, "durability note", "replication is not synchronous")
	require.Empty(t, all["unread warning"])
}

func TestPostgresThatCannotBeUsed(t *testing.T) {
	b := newPGBench(t)
	requireFinding(t, b.diagnose("postgres://127.0.0.1:1/x?sslmode=disable", 0), "server problem", "does not answer",
		"connection refused", "check the host and port")
	requireFinding(t, b.diagnose(b.with(func(u *url.URL) { u.User = url.User("nobody") }), 0), "server problem",
		"refuses the connection", "pg_hba.conf")
	requireFinding(t, b.diagnose(b.with(func(u *url.URL) { u.Path = "/none" }), 0), "server problem",
		"refuses the connection")
	b.exec("ALTER DATABASE postgres SET default_transaction_read_only = on")
	requireFinding(t, b.diagnose(b.db.URL(), 0), "server problem", "takes no writes", "target_session_attrs=read-write")
}

// doctor looks at the server that a session would use, with a URL that suits a session.
func TestURLOfPostgres(t *testing.T) {
	b := newPGBench(t)
	b.open(b.db.URL(), "a", 10*time.Second)
	standby := pgserver.StartForTest(t) // refuses writes, as one does
	conn := b.connect(standby.URL())
	_, err := conn.Exec(t.Context(), "ALTER DATABASE postgres SET default_transaction_read_only = on")
	require.NoError(t, err)
	other, err := url.Parse(standby.URL())
	require.NoError(t, err)
	all := b.diagnose(b.with(func(u *url.URL) {
		u.Host = other.Host + "," + u.Host
		query := u.Query()
		query.Set("pool_max_conns", "3")
		u.RawQuery = query.Encode()
	}), 10*time.Second)
	requireFinding(t, all, "server ok")
	requireFinding(t, all, "sessions ok", "1 session, ")
	require.Empty(t, all["unread warning"])
}

func TestPostgresPooled(t *testing.T) {
	b := newPGBench(t)
	requireFinding(t, b.diagnose(b.db.PooledForTest(t, "transaction"), 0), "pooler problem", "pool_mode=session")
}

func TestRightsInPostgres(t *testing.T) {
	b := newPGBench(t)
	b.exec("CREATE USER plain; REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
	plain := b.with(func(u *url.URL) { u.User = url.User("plain") })
	requireFinding(t, b.diagnose(plain, 0), "schema problem", "may not make them", "SchemaSQL")
	b.open(b.db.URL(), "a", 10*time.Second)
	requireFinding(t, b.diagnose(plain, 0), "access problem", "USAGE on the schema",
		"GRANT USAGE ON SCHEMA goverse TO plain")
	b.exec("GRANT USAGE ON SCHEMA goverse TO plain; GRANT SELECT ON ALL TABLES IN SCHEMA goverse TO plain")
	all := b.diagnose(plain, 0)
	requireFinding(t, all, "access problem", "INSERT on session", "and ")
	require.Empty(t, all["sessions ok"], "there is one, which was not looked at")
	require.Empty(t, all["epoch note"])
	b.exec("GRANT ALL ON ALL TABLES IN SCHEMA goverse TO plain")
	all = b.diagnose(plain, 0)
	requireFinding(t, all, "access note", "sessions of other users (postgres)")
	require.Empty(t, all["unread warning"])
}

// examine returns the findings about the server with the given deadline.
func (b *pgBench) examine() map[string][]diagnosis.Finding {
	b.Helper()
	return b.diagnose(b.db.URL(), 12*time.Second)
}

// Sessions of processes that stand still or have gone, and what they leave behind.
func TestSessionsInPostgres(t *testing.T) {
	b := newPGBench(t)
	first := b.open(b.db.URL(), "first", 12*time.Second)
	require.NoError(t, first.Close(t.Context()))
	const insert = `INSERT INTO goverse.session (id, epoch, deadline_us, owner)
		SELECT $1, id, 12000000, $2 FROM goverse.epoch`
	b.exec(insert, int64(1)<<40+7, "gone")
	b.exec(`INSERT INTO goverse.claim (name, place, session, seq, shared) VALUES ('lock/orphan', 1, 99, 1, false)`)
	all := b.examine()
	requireFinding(t, all, "sessions note", "the process of gone has vanished and left its session behind (0 claims)")
	requireFinding(t, all, "claims note", "1 claim of sessions that have ended: the next process removes them")

	b.exec(insert, int64(1)<<40+8, "stuck")
	b.exec("SELECT pg_advisory_lock($1)", int64(1)<<40+8)
	b.open(b.db.URL(), "alive", 12*time.Second) // it ends the others after 12 s, and is watched for little more than 6
	all = b.examine()
	requireFinding(t, all, "sessions note", "the process of gone has vanished: the others end its session")
	requireFinding(t, all, "sessions warning", "the session of stuck sends no heartbeats, and its connection stands")
	require.Len(t, append(all["sessions note"], all["sessions warning"]...), 2)
}

// A transaction that has bound itself to a claim holds up the next holder.
func TestTransactionInPostgres(t *testing.T) {
	b := newPGBench(t)
	held, err := lockpg.New(b.open(b.db.URL(), "a", 10*time.Second)).Acquire(t.Context(), "it")
	require.NoError(t, err)
	other := b.connect(b.db.URL())
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, lockpg.Fence(t.Context(), tx, held))
	_, err = other.Exec(t.Context(), "SET application_name = 'slow report'")
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "SELECT pg_sleep(0.3)") // longer than the deadline
	require.NoError(t, err)
	all := b.diagnose(b.db.URL(), 200*time.Millisecond)
	requireFinding(t, all, "transactions warning", "idle in transaction", "slow report", "pg_terminate_backend")
	requireFinding(t, all, "sessions note", "the session of a has a deadline of 10s")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, b.diagnose(b.db.URL(), 200*time.Millisecond)["transactions warning"])
}

func TestEpochAndReleaseInPostgres(t *testing.T) {
	b := newPGBench(t)
	b.open(b.db.URL(), "a", 10*time.Second)
	b.exec("UPDATE goverse.epoch SET open = false")
	requireFinding(t, b.diagnose(b.db.URL(), 0), "epoch warning", "nothing is granted yet")
	b.exec("UPDATE goverse.setting SET release = release + 1")
	requireFinding(t, b.diagnose(b.db.URL(), 0), "schema note", "newer programs")
}

// A commit that waits for a standby in vain is reported, and holds nothing up.
func TestCommitInPostgresHangs(t *testing.T) {
	b := newPGBench(t)
	b.exec("ALTER SYSTEM SET synchronous_standby_names = 'none'")
	b.exec("SELECT pg_reload_conf()")
	require.Eventually(t, func() bool {
		var v string
		require.NoError(t, b.admin.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&v))
		return v == "none"
	}, time.Minute, time.Millisecond)
	all := b.diagnose(b.db.URL(), 0)
	requireFinding(t, all, "latency warning", "a commit failed or took too long", "synchronous standbys run")
	requireFinding(t, all, "durability note", "no synchronous standby is seen")
}
