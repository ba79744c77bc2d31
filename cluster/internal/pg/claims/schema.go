package claims

import (
	"context"
	_ "embed" // for the tables
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
)

// DefaultSchema is the schema of the tables if none is named.
const DefaultSchema = "goverse"

//go:embed schema.sql
var schemaText string

// SchemaSQL returns the statements that make the tables and functions in a schema, unless they are there. An
// administrator runs them where the program's user may create neither schemas nor functions.
func SchemaSQL(schema string) string {
	return strings.ReplaceAll(pg.InSchema(schema, schemaText), "{{release}}", fmt.Sprint(SchemaRelease))
}

// SchemaRelease is the number of the tables and functions in schema.sql. A change of them raises it, and must leave
// what processes of the release before call.
const SchemaRelease = 1

// schemaLock is the advisory lock of the transaction that makes the tables.
const schemaLock = 0x676f7665727365 // "goverse"

// CreateSchema makes the tables and functions, unless they are there. Any number of processes may call it at once. It
// blocks until PostgreSQL has answered or ctx ends.
func CreateSchema(ctx context.Context, db pg.Querier, schema string) error {
	var release int
	err := db.QueryRow(ctx, pg.InSchema(schema, "SELECT release FROM {{schema}}.setting"),
		pgx.QueryExecModeSimpleProtocol).Scan(&release)
	if err == nil && release >= SchemaRelease {
		return nil
	}
	// An error of the question comes again, if it matters.
	if err := pg.CreateTables(ctx, db, schemaLock, SchemaSQL(schema)); err != nil {
		if pg.CodeOf(err) == pg.CodeNoRight {
			err = fmt.Errorf("%w; have an administrator run the output of pgsession.SchemaSQL, and grant its tables", err)
		}
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
	in := func(sql string) string { return pg.InSchema(schema, sql) }
	return statements{
		epoch:       in("SELECT id, open, wait_us FROM {{schema}}.enter_epoch($1)"),
		openEpoch:   in("SELECT {{schema}}.open_epoch($1)"),
		openSession: in("SELECT {{schema}}.open_session($1, $2, $3, $4)"),
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
		queues:        in(selectEntries + "WHERE c.name = ANY($1) ORDER BY c.name, c.place"),
		fence:         in("SELECT 1 FROM {{schema}}.claim WHERE session = $1 AND seq = $2 FOR KEY SHARE"),
	}
}
