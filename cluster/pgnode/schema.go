package pgnode

import (
	"cmp"
	"context"
	_ "embed" // for the tables
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/pgsession"
)

//go:embed schema.sql
var schemaText string

// schemaRelease is the number of the tables and functions in schema.sql. A change of them raises it, and must keep
// the functions that processes of the release before call.
const schemaRelease = 1

// ErrNoTables is returned by the functions that read or record without a node if the schema has no tables of nodes.
// [CreateTables] makes them.
var ErrNoTables = errors.New("the schema has no tables of nodes: no program has joined there")

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SchemaSQL returns the statements that make the tables and functions of nodes in a schema, "" for the default one.
// They need those of pgsession.SchemaSQL when they are used, in the same schema.
func SchemaSQL(schema string) string {
	return strings.NewReplacer("{{schema}}", quotedSchema(schema), "{{release}}", fmt.Sprint(schemaRelease)).
		Replace(schemaText)
}

// schemaLock is the advisory lock of the transaction that makes the tables, as in package claims.
const schemaLock = 0x676f7665727365 // "goverse"

// CreateTables makes the tables and functions in a schema, "" for the default one, unless they are there. [Join] calls
// it. It blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's and ctx's.
func CreateTables(ctx context.Context, db Querier, schema string) error {
	release := 0
	there, err := hasTables(ctx, db, schema)
	if err == nil && there {
		err = db.QueryRow(ctx, "SELECT coalesce(max(release), 0) FROM "+quotedSchema(schema)+".node_setting").Scan(&release)
	}
	if err == nil && release < schemaRelease {
		// One query string is one transaction.
		_, err = db.Exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '0', true); "+
			"SELECT pg_advisory_xact_lock(%d);\n", schemaLock)+SchemaSQL(schema), pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		return fmt.Errorf("make the tables of nodes in the schema %s: %w", quotedSchema(schema), pg.WithRemedy(err))
	}
	return nil
}

func quotedSchema(schema string) string {
	return pgx.Identifier{cmp.Or(schema, pgsession.DefaultSchema)}.Sanitize()
}

// in puts the schema into a statement.
func in(schema, sql string) string {
	return strings.ReplaceAll(sql, "{{schema}}", quotedSchema(schema))
}

// hasTables reports whether the schema has the tables. Unlike a failing statement, it does not abort a transaction.
func hasTables(ctx context.Context, db Querier, schema string) (there bool, err error) {
	err = db.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", quotedSchema(schema)+".node_setting").
		Scan(&there)
	return there, err
}

// requireTables returns ErrNoTables unless the schema has the tables.
func requireTables(ctx context.Context, db Querier, schema string) error {
	there, err := hasTables(ctx, db, schema)
	if err == nil && !there {
		err = ErrNoTables
	}
	return err
}
