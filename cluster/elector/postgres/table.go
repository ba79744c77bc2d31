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

// DB is what a store needs of pgx: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx is one. A pool is
// the one to take: a connection serves one caller at a time, and pgx closes it when a context
// ends in the middle of a statement; in a transaction nothing that is written counts for others.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// defaultTable is where the leases are if no table is named.
const defaultTable = "goverse_leases"

// quoted is a table's name as it stands in statements.
func quoted(table pgx.Identifier) (string, error) {
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

// CreateTable makes the table of leases if there is none of that name; nil is goverse_leases.
// Any number of processes may call it at the same time. It does not compare a table that is
// there with what it would make.
func CreateTable(ctx context.Context, db DB, table pgx.Identifier) error {
	name, err := quoted(table)
	if err != nil {
		return err
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
	for again := 0; again < 3 && slices.Contains(alreadyThere, pg.CodeOf(err)); again++ {
		_, err = db.Exec(ctx, create) // another one made it at the same time: PostgreSQL does not wait and look again
	}
	if err != nil {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	return nil
}

// alreadyThere are the conditions in which a table, or the type that goes with it, comes up
// while it is being made: unique_violation, duplicate_object, duplicate_table.
var alreadyThere = []string{"23505", "42710", "42P07"}
