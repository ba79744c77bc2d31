package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/internal/pg"
)

// DB is the part of pgx that a store uses. A *pgxpool.Pool, a *pgx.Conn and a pgx.Tx implement it; use a pool.
// A connection serves one caller at a time, and pgx closes it when a context ends during a statement. Writes in
// a transaction do not count for other candidates.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// defaultTable is the table of leases if none is named.
const defaultTable = "goverse_leases"

// quoteTable returns a table's name quoted for SQL.
func quoteTable(table pgx.Identifier) (string, error) {
	if len(table) == 0 {
		return defaultTable, nil
	}
	for _, part := range table {
		if part == "" {
			return "", fmt.Errorf("%w: the table's name %q has an empty part; give it as {\"table\"} or {\"schema\", "+
				"\"table\"}", elector.ErrBadConfig, []string(table))
		}
	}
	return table.Sanitize(), nil
}

// CreateTable creates the table of leases unless it exists; then it needs no right to create tables. nil means
// goverse_leases. Any number of processes may call it at the same time. It does not check all columns of an existing
// table.
func CreateTable(ctx context.Context, db DB, table pgx.Identifier) error {
	name, err := quoteTable(table)
	if err != nil {
		return err
	}
	if there, err := pg.HasTables(ctx, db, map[string]string{name: "leader_transitions"}); there && err == nil {
		return nil
	}
	create := `CREATE TABLE IF NOT EXISTS ` + name + ` (
	name               text        PRIMARY KEY,
	version            text        NOT NULL,
	holder_identity    text        NOT NULL,
	holder_instance    text        NOT NULL,
	lease_duration_ns  bigint      NOT NULL,
	acquire_time       timestamptz NOT NULL,
	renew_time         timestamptz NOT NULL,
	leader_transitions bigint      NOT NULL
)`
	_, err = db.Exec(ctx, create)
	for again := 0; again < 3 && slices.Contains(duplicateCodes, pg.CodeOf(err)); again++ {
		_, err = db.Exec(ctx, create) // another process created it at the same time, and PostgreSQL does not check again
	}
	if err != nil {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	return nil
}

// duplicateCodes lists the SQLSTATE codes for a table, or its type, that another process creates at the same
// time: unique_violation, duplicate_object, duplicate_table.
var duplicateCodes = []string{"23505", "42710", "42P07"}
