package claims

import (
	"context"
	_ "embed" // for the tables
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultSchema is the schema of the tables if none is named.
const DefaultSchema = "goverse"

//go:embed schema.sql
var schemaText string

// SchemaSQL returns the statements that make the tables and functions in a schema, unless they are there. An
// administrator runs them where the program's user may create neither schemas nor functions.
func SchemaSQL(schema string) string {
	return strings.NewReplacer("{{schema}}", pgx.Identifier{schema}.Sanitize(), "{{release}}", fmt.Sprint(schemaRelease)).
		Replace(schemaText)
}

// schemaRelease is the number of the tables and functions in schema.sql. A change of them raises it, and must leave
// what processes of the release before call.
const schemaRelease = 1

// database is a connection, a pool or a transaction.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schemaLock is the advisory lock of the transaction that makes the tables: PostgreSQL does not make one thing twice at
// once, IF NOT EXISTS or not.
const schemaLock = 0x676f7665727365 // "goverse"

// CreateSchema makes the tables and functions, unless they are there. Any number of processes may call it at once. It
// blocks until PostgreSQL has answered or ctx ends.
func CreateSchema(ctx context.Context, db database, schema string) error {
	var release int
	err := db.QueryRow(ctx, "SELECT release FROM "+pgx.Identifier{schema, "setting"}.Sanitize(),
		pgx.QueryExecModeSimpleProtocol).Scan(&release)
	if err == nil && release >= schemaRelease {
		return nil
	}
	// One query string is one transaction. An error of the question comes again, if it matters.
	_, err = db.Exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '0', true); SELECT pg_advisory_xact_lock(%d);\n",
		schemaLock)+SchemaSQL(schema),
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("make the tables in the schema %s: %w", pgx.Identifier{schema}.Sanitize(), err)
	}
	return nil
}

// statements holds the statements of one schema.
type statements struct {
	epoch, openEpoch                           string
	openSession, beat, sessions, end           string
	deleteSession, settleLeft, forgetNames     string
	apply, own, unsettled, settle, settleEnded string
	queues, fence                              string
}

func statementsFor(schema string) statements {
	q := pgx.Identifier{schema}.Sanitize()
	in := func(sql string) string { return strings.ReplaceAll(sql, "{{schema}}", q) }
	return statements{
		epoch:       in("SELECT id, open, wait_us FROM {{schema}}.enter_epoch($1)"),
		openEpoch:   in("SELECT {{schema}}.open_epoch($1)"),
		openSession: in("SELECT epoch FROM {{schema}}.open_session($1, $2, $3, $4) epoch"),
		beat: in("UPDATE {{schema}}.session SET beat = beat + 1 WHERE id = $1 " +
			"RETURNING pg_backend_pid()"),
		deleteSession: in("DELETE FROM {{schema}}.session WHERE id = $1"),
		settleLeft:    in("SELECT {{schema}}.settle_left($1)"),
		forgetNames:   in("SELECT last, deleted FROM {{schema}}.forget_names($1, $2)"),
		apply:         in("SELECT seq, outcome, coalesce(token, 0) FROM {{schema}}.apply($1, $2, $3, $4, $5)"),
		sessions:      in("SELECT id, beat, deadline_us FROM {{schema}}.session WHERE id <> $1"),
		own:           in("SELECT seq, coalesce(token, 0) FROM {{schema}}.claim WHERE session = $1 AND seq = ANY($2)"),
		unsettled:     in("SELECT n FROM unnest($1::text[]) n WHERE {{schema}}.unsettled(n)"),
		settle:        in("SELECT {{schema}}.settle_name(n) FROM unnest($1::text[]) n"),
		settleEnded:   in("SELECT {{schema}}.settle_ended($1)"),
		end:           in("SELECT {{schema}}.end_session($1, $2, $3)"),
		queues: in("SELECT c.name, c.session, c.seq, coalesce(c.token, 0), s.owner FROM {{schema}}.claim c " +
			"JOIN {{schema}}.session s ON s.id = c.session WHERE c.name = ANY($1) ORDER BY c.name, c.place"),
		fence: in("SELECT 1 FROM {{schema}}.claim WHERE session = $1 AND seq = $2 FOR KEY SHARE"),
	}
}
