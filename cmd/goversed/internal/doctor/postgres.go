package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// PostgresConfig configures ExaminePostgres.
type PostgresConfig struct {
	// Session is the configuration of the sessions to examine.
	Session pgsession.Config
	// Timeout limits the examination.
	Timeout time.Duration
}

const (
	// maxSessions limits the sessions examined, and the transactions.
	maxSessions, maxTransactions = 500, 5
	// samples is the number of times that a read and a commit are measured.
	samples = 5
	// maxWatch limits the time between the two looks at the sessions.
	maxWatch = 10 * time.Second
	// maxUnread limits the errors reported about what could not be read.
	maxUnread = 3
)

// pgExaminer examines one PostgreSQL.
type pgExaminer struct {
	cfg    PostgresConfig
	conn   *pgx.Conn
	f      diagnosis.PostgresFacts
	unread []string
}

// ExaminePostgres examines PostgreSQL and the sessions in it. It writes nothing but a few messages to the write-ahead
// log, to measure commits. It blocks for at most Timeout, or until ctx ends. The facts lack everything that it could
// not see by then.
func ExaminePostgres(ctx context.Context, cfg PostgresConfig) diagnosis.PostgresFacts {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	x := &pgExaminer{cfg: cfg}
	x.f.Schema = cmp.Or(cfg.Session.Schema, pgsession.DefaultSchema)
	x.f.Deadline = cmp.Or(cfg.Session.Deadline, pgsession.DefaultDeadline)
	if x.connect(ctx) {
		defer func() { _ = x.conn.Close(context.WithoutCancel(ctx)) }() // it was only read
		x.examine(ctx)
	}
	x.f.Unread = strings.Join(x.unread, "; ")
	return x.f
}

// connect connects, as a session would. It returns false if the connection cannot be used.
func (x *pgExaminer) connect(ctx context.Context) bool {
	s := &x.f.Server
	soon, cancel := context.WithTimeout(ctx, 2*stepTimeout)
	defer cancel()
	err := pgsession.Probe(soon, x.cfg.Session)
	if err == nil {
		x.conn, err = connectPrimary(soon, x.cfg.Session.URL)
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, pgsession.ErrPooled):
		s.Pooled = true
	case errors.Is(err, pgsession.ErrStandby):
		s.Standby = true
	default:
		s.Failed = logtext.OneLine(err)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
			s.Denied = slices.ContainsFunc([]string{"28", "3D", "42"}, func(class string) bool {
				return strings.HasPrefix(refused.Code, class)
			})
		}
	}
	return false
}

// connectPrimary connects to the server that a session would use: of several hosts the one that takes writes.
func connectPrimary(ctx context.Context, at string) (*pgx.Conn, error) {
	cfg, err := pgxpool.ParseConfig(at) // takes the settings of a pool out, as a session does
	if err != nil {
		return nil, err
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pgx.ConnectConfig(ctx, cfg.ConnConfig)
}

// note records an error about a part that could not be read.
func (x *pgExaminer) note(err error) {
	if err != nil && len(x.unread) < maxUnread {
		x.unread = append(x.unread, findingText(err))
	}
}

// examine examines everything behind a connection.
func (x *pgExaminer) examine(ctx context.Context) {
	x.note(x.readServer(ctx))
	x.measureReads(ctx)
	x.note(x.readTables(ctx))
	if x.f.Tables.Exist && len(x.f.Tables.MissingRights) == 0 {
		x.note(x.watchSessions(ctx))
		x.note(x.readTransactions(ctx))
		x.note(x.readNodes(ctx))
	}
	x.measureCommits(ctx)
}

func (x *pgExaminer) readServer(ctx context.Context) error {
	s := &x.f.Server
	s.Settings = map[string]string{}
	rows, err := x.conn.Query(ctx, `SELECT name, setting FROM pg_settings WHERE name = ANY ($1)`, []string{"fsync",
		"full_page_writes", "synchronous_commit", "synchronous_standby_names"})
	if err != nil {
		return err
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		s.Settings[name] = value
		return nil
	}); err != nil {
		return err
	}
	return x.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_user, (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
		(SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::int,
		(SELECT sum(CASE WHEN name = 'max_connections' THEN setting::int ELSE -setting::int END)
			FROM pg_settings WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections'))::int`).
		Scan(&s.Version, &s.VersionText, &s.User, &s.SyncStandbys, &s.Connections, &s.Places)
}

// measureReads measures the time of a read, and the server's clock.
func (x *pgExaminer) measureReads(ctx context.Context) {
	s := &x.f.Server
	for range samples {
		began := time.Now()
		var at time.Time
		if err := x.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at); err != nil {
			x.note(err)
			return
		}
		took := time.Since(began)
		s.Reads = append(s.Reads, took)
		if s.ClockError == 0 || took/2 < s.ClockError {
			s.ClockAhead, s.ClockError = at.Sub(began.Add(took/2)), max(took/2, 1)
		}
	}
}

// measureCommits measures the time of a commit that waits for the disk and the synchronous standbys, on a connection of
// its own: a commit that waits for a standby in vain can only be left.
func (x *pgExaminer) measureCommits(ctx context.Context) {
	s := &x.f.Server
	ctx, cancel := context.WithTimeout(ctx, 2*stepTimeout)
	defer cancel()
	conn, err := connectPrimary(ctx, x.cfg.Session.URL)
	if err != nil {
		x.note(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is kept
	_, err = conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false)
		WHERE current_setting('synchronous_commit') IN ('off', 'local')`)
	for range samples {
		if err != nil {
			break
		}
		began := time.Now()
		if _, err = conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'goversed doctor', '')"); err == nil {
			s.Commits = append(s.Commits, time.Since(began))
		}
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || refused.Code != codeNoRight) {
		s.CommitFailed = findingText(err)
	}
}

// codeNoRight is the code of PostgreSQL for a right that is lacking.
const codeNoRight = "42501"

// neededRights are the rights of a session on its tables.
const neededRights = `(VALUES ('session', 'SELECT,INSERT,UPDATE,DELETE'), ('claim', 'SELECT,INSERT,UPDATE,DELETE'),
	('name', 'SELECT,INSERT,UPDATE,DELETE'), ('epoch', 'SELECT,INSERT,UPDATE'), ('setting', 'SELECT,UPDATE'))`

func (x *pgExaminer) readTables(ctx context.Context) error {
	t := &x.f.Tables
	t.Wanted = pgsession.SchemaRelease
	err := x.conn.QueryRow(ctx, `SELECT n.oid IS NOT NULL,
		CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
			ELSE has_schema_privilege(n.oid, 'CREATE') END,
		(SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r'
			AND c.relname IN ('session', 'claim', 'name', 'epoch', 'setting')) = 5,
		CASE WHEN NOT has_schema_privilege(n.oid, 'USAGE') THEN ARRAY['USAGE on the schema']::text[] ELSE '{}' END ||
			ARRAY(SELECT r || ' on ' || c.relname FROM `+neededRights+` needed (tab, rights)
				JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = needed.tab,
				unnest(string_to_array(needed.rights, ',')) r WHERE NOT has_table_privilege(c.oid, r))
		FROM (SELECT $1::text AS name) want LEFT JOIN pg_namespace n ON n.nspname = want.name`, x.f.Schema).
		Scan(&t.SchemaExists, &t.MayCreate, &t.Exist, &t.MissingRights)
	if err != nil || !t.Exist || len(t.MissingRights) > 0 {
		return err
	}
	err = x.conn.QueryRow(ctx, x.in(`SELECT coalesce((SELECT release FROM {{schema}}.setting), 0),
		coalesce((SELECT open FROM {{schema}}.epoch WHERE started = pg_postmaster_start_time()), false)`)).
		Scan(&t.Release, &t.EpochOpen)
	t.EpochRead = err == nil
	return err
}

// in puts the schema into a statement.
func (x *pgExaminer) in(sql string) string {
	return strings.ReplaceAll(sql, "{{schema}}", pgx.Identifier{x.f.Schema}.Sanitize())
}

// watchSessions looks twice at the sessions and the claims.
func (x *pgExaminer) watchSessions(ctx context.Context) error {
	first, orphans, err := x.readSessions(ctx)
	if err != nil {
		return err
	}
	var longest time.Duration
	for _, s := range first {
		longest = max(longest, s.Deadline)
	}
	x.f.Watched = min(longest/2+longest/20, maxWatch, x.cfg.Timeout/2)
	if len(first)+len(orphans) > 0 && !wait.For(ctx, max(x.f.Watched, 100*time.Millisecond)) {
		return context.Cause(ctx)
	}
	second, later, err := x.readSessions(ctx)
	if err != nil {
		return err
	}
	for _, s := range first {
		at := slices.IndexFunc(second, func(o beatingSession) bool { return o.ID == s.ID })
		if s.Ended = at < 0; !s.Ended {
			s.Beat = second[at].beat != s.beat
			s.Connected, s.User = second[at].Connected, second[at].User
		}
		x.f.Sessions = append(x.f.Sessions, s.PostgresSession)
	}
	for _, o := range orphans {
		if slices.Contains(later, o) {
			x.f.Claims.Orphans++
		}
	}
	var all int
	err = x.conn.QueryRow(ctx, x.in(`SELECT (SELECT count(*) FROM {{schema}}.session), count(token),
		count(*) - count(token) FROM {{schema}}.claim`)).Scan(&all, &x.f.Claims.Granted, &x.f.Claims.Waiting)
	x.f.SessionsLeft = max(all-len(second), 0)
	x.f.SessionsRead = err == nil
	return err
}

// beatingSession is a session at one look, with its counter.
type beatingSession struct {
	diagnosis.PostgresSession
	beat int64
}

// readSessions reads the sessions, and the claims without one.
func (x *pgExaminer) readSessions(ctx context.Context) (all []beatingSession, orphans []string, err error) {
	rows, err := x.conn.Query(ctx, x.in(`SELECT s.id, s.owner, s.deadline_us, s.beat, l.pid IS NOT NULL,
		coalesce(a.usename, '')::text, (SELECT count(*) FROM {{schema}}.claim c WHERE c.session = s.id)
		FROM {{schema}}.session s LEFT JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted
			AND l.mode = 'ExclusiveLock' AND l.objsubid = 1 AND l.classid = (s.id >> 32)::oid
			AND l.objid = (s.id & 4294967295)::oid
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		LEFT JOIN pg_stat_activity a ON a.pid = l.pid ORDER BY s.opened, s.id LIMIT $1`), maxSessions)
	if err != nil {
		return nil, nil, err
	}
	var s beatingSession
	var us int64
	columns := []any{&s.ID, &s.Owner, &us, &s.beat, &s.Connected, &s.User, &s.Claims}
	if _, err := pgx.ForEachRow(rows, columns, func() error {
		s.Deadline = time.Duration(us) * time.Microsecond
		all = append(all, s)
		return nil
	}); err != nil {
		return nil, nil, err
	}
	rows, err = x.conn.Query(ctx, x.in(`SELECT format('%s/%s', c.name, c.place) FROM {{schema}}.claim c
		WHERE NOT EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = c.session) ORDER BY 1 LIMIT $1`), maxSessions)
	if err != nil {
		return nil, nil, err
	}
	orphans, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return all, orphans, err
}

// readTransactions reads the transactions that have locked rows of the tables for longer than the deadline, as far as
// the user may see them.
func (x *pgExaminer) readTransactions(ctx context.Context) error {
	rows, err := x.conn.Query(ctx, `SELECT DISTINCT a.pid, coalesce(a.usename, '')::text, a.application_name,
			coalesce(a.state, ''), (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::bigint
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'relation' AND l.granted AND l.mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')
			AND l.relation IN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $3 AND c.relname IN ('claim', 'session', 'name'))
			AND a.xact_start < clock_timestamp() - $1::bigint * interval '1 microsecond' AND a.pid <> pg_backend_pid()
		ORDER BY 5 DESC LIMIT $2`, x.f.Deadline.Microseconds(), maxTransactions, x.f.Schema)
	if err != nil {
		return err
	}
	var t diagnosis.PostgresTransaction
	var us int64
	_, err = pgx.ForEachRow(rows, []any{&t.PID, &t.User, &t.Name, &t.State, &us}, func() error {
		t.Age = time.Duration(us) * time.Microsecond
		x.f.Transactions = append(x.f.Transactions, t)
		return nil
	})
	return err
}

// readNodes reads the nodes and elections, if the schema has tables of nodes.
func (x *pgExaminer) readNodes(ctx context.Context) error {
	s, err := pgnode.Read(ctx, x.conn, x.f.Schema)
	switch {
	case errors.Is(err, pgnode.ErrNoTables):
		return nil
	case err != nil:
		return fmt.Errorf("the nodes: %w", err)
	}
	x.f.Nodes = &s
	return nil
}
