package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/internal/pg/claims"
)

// createTable makes the table. Names are escaped, as in the table of claims.
const createTable = `CREATE TABLE IF NOT EXISTS {{schema}}.effect (
	name      text        COLLATE "C" PRIMARY KEY,
	state     text        NOT NULL CHECK (state IN ('running', 'done', 'failed')),
	attempt   integer     NOT NULL,
	token     bigint      NOT NULL, -- while it runs, its claim's
	owner     text        NOT NULL,
	at        timestamptz NOT NULL,
	value     bytea       NOT NULL DEFAULT '',
	dropped   integer     NOT NULL DEFAULT 0, -- the length of a value that was too long
	error     text        NOT NULL DEFAULT '',
	resolved  text        NOT NULL DEFAULT '',
	retention interval    NOT NULL,
	expires   timestamptz -- null while it runs
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS effect_expires ON {{schema}}.effect (expires) WHERE expires IS NOT NULL;
CREATE INDEX IF NOT EXISTS effect_running ON {{schema}}.effect (name) WHERE state = 'running';
`

// tableLock is the advisory lock of the transaction that makes the table.
const tableLock = 0x6f6e6365 // "once"

// SchemaSQL returns the statements that make the table in a session's schema, "" for the default one. A user that
// may not create tables there has them run by another one, after those of pgsession.SchemaSQL.
func SchemaSQL(schema string) string {
	return pg.InSchema(cmp.Or(schema, claims.DefaultSchema), createTable)
}

// CreateTable makes the table of marks in the session's schema, unless it is there. Any number of processes may call
// it at once and repeatedly. It blocks until PostgreSQL has answered or ctx ends.
func (e *Effects) CreateTable(ctx context.Context) error {
	var found bool
	err := e.db.QueryRow(ctx, e.sql.exists).Scan(&found)
	if err == nil && found {
		return nil // a user that may not create tables is not refused
	}
	err = e.db.Write(ctx, func(q pg.Querier) error { return pg.CreateTables(ctx, q, tableLock, SchemaSQL(e.schema)) })
	if err != nil {
		return fmt.Errorf("make the table of effects: %w", err)
	}
	return nil
}

// statements holds the statements of one schema. Those for fenced begin with the parameters of a claim's fence.
type statements struct {
	exists, read, begin, record, beginTx, recordTx, deleteExpired, list, listUnknown string
}

const (
	columns = `m.name, m.state, m.attempt, m.token, m.owner, m.at, m.value, m.dropped, m.error, m.resolved, m.retention`
	// held holds while the claim of a running attempt stands, and its session.
	held = `EXISTS (SELECT 1 FROM {{schema}}.claim c JOIN {{schema}}.session s ON s.id = c.session
	WHERE c.name = '` + prefix + `' || m.name AND c.token = m.token)`
	// remembered holds for a mark that has not expired.
	remembered = `(m.state = 'running' OR m.expires > clock_timestamp())`
	// nextAttempt is the number of an attempt that replaces a mark.
	nextAttempt = `CASE WHEN m.expires > clock_timestamp() THEN m.attempt ELSE 0 END + 1`
)

func statementsFor(schema string) statements {
	in := func(sql string) string { return pg.InSchema(schema, sql) }
	return statements{
		exists: `SELECT to_regclass('` + strings.ReplaceAll(in("{{schema}}.effect"), "'", "''") + `') IS NOT NULL`,
		read:   in(`SELECT ` + columns + `, ` + held + ` FROM {{schema}}.effect m WHERE m.name = $1 AND ` + remembered),
		// Writes that an attempt begins, or (state failed) that it did not. The token shows whether its own mark
		// stands: one that says that it did not begin is never replaced by one that says that it did, however late
		// that one arrives.
		begin: in(`INSERT INTO {{schema}}.effect AS m
	(name, state, attempt, token, owner, at, retention, error, expires)
SELECT $3::text, $4::text, 1, $5::bigint, $6::text, clock_timestamp(), $7::interval, $8::text,
	CASE $4::text WHEN 'failed' THEN clock_timestamp() + $7::interval END
FROM fence, durable WHERE durable.setting <> ''
ON CONFLICT (name) DO UPDATE SET state = excluded.state,
	attempt = CASE WHEN m.token = excluded.token THEN m.attempt ELSE ` + nextAttempt + ` END,
	token = excluded.token, owner = excluded.owner, at = excluded.at, value = '', dropped = 0, error = excluded.error,
	resolved = '', retention = excluded.retention, expires = excluded.expires
WHERE CASE WHEN m.token = excluded.token THEN m.state = 'running' AND excluded.state = 'failed'
	ELSE m.state = 'failed' OR m.expires <= clock_timestamp() END
RETURNING m.attempt`),
		// Writes the outcome of an attempt.
		record: in(`UPDATE {{schema}}.effect m SET state = $5::text, value = $6::bytea, dropped = $7::integer,
	error = $8::text, resolved = $9::text, at = clock_timestamp(), expires = clock_timestamp() + m.retention
FROM fence, durable WHERE durable.setting <> '' AND m.name = $3::text AND m.state = 'running' AND m.token = $4::bigint
RETURNING m.attempt`),
		// The same in a user's transaction: other transactions see the mark when that one has been committed.
		beginTx: in(`INSERT INTO {{schema}}.effect AS m (name, state, attempt, token, owner, at, retention, expires)
VALUES ($1::text, 'done', 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $2::text, clock_timestamp(),
	$3::interval, clock_timestamp() + $3::interval)
ON CONFLICT (name) DO UPDATE SET state = excluded.state, attempt = ` + nextAttempt + `,
	token = greatest(m.token + 1, excluded.token), owner = excluded.owner, at = excluded.at, value = '', dropped = 0,
	error = '', resolved = '', retention = excluded.retention, expires = excluded.expires
WHERE m.state = 'failed' OR m.expires <= clock_timestamp()
RETURNING m.attempt, m.token`),
		recordTx: in(`UPDATE {{schema}}.effect m SET value = $2::bytea, dropped = $3::integer,
	at = clock_timestamp(), expires = clock_timestamp() + m.retention WHERE m.name = $1::text`),
		deleteExpired: in(fmt.Sprintf(`WITH expired AS (SELECT name FROM {{schema}}.effect WHERE expires <= now()
	ORDER BY expires LIMIT %d FOR UPDATE SKIP LOCKED)
DELETE FROM {{schema}}.effect m USING expired WHERE m.name = expired.name`, expireBatch)),
		list: in(`SELECT ` + columns + `, ` + held + ` FROM {{schema}}.effect m WHERE m.name > $1 AND ` + remembered + `
	ORDER BY m.name LIMIT $2::bigint`),
		listUnknown: in(`SELECT ` + columns + `, false FROM {{schema}}.effect m WHERE m.name > $1
	AND m.state = 'running' AND NOT ` + held + ` ORDER BY m.name LIMIT $2::bigint`),
	}
}

// durable makes a statement's commit durable, whatever synchronous_commit the connection has: if a crash of the
// server lost a mark, the effect would run again.
const durable = `durable AS (SELECT set_config('synchronous_commit',
	CASE WHEN v IN ('off', 'local') THEN 'on' ELSE v END, true) setting FROM current_setting('synchronous_commit') v)
`

// fenced returns a statement that takes effect only while a claim stands: no other claim on its name is granted
// before the statement's transaction has ended.
func fenced(c *claims.Claim, sql string, args ...any) (string, []any) {
	fence, of := c.FenceSQL()
	return "WITH fence AS (" + fence + "),\n" + durable + sql, append(of, args...)
}
