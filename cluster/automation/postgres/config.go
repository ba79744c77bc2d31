package postgres

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/automation"
)

// Config configures a [Source]. DB, Table, Key, Where, Select, Scan and Done are required. The texts of SQL come from
// the program; never build them from input.
type Config[I any] struct {
	// DB is never closed. Each item that is being executed uses one connection, so it needs as many as the
	// automations on it have workers, and one more. If an executor takes another connection of the same pool in
	// addition to Tx, give it a pool of its own: workers that wait for each other's connections wait forever.
	DB *pgxpool.Pool
	// Table has the items, with or without its schema. Lower-case letters, digits and underscores.
	Table string
	// Key is the column that identifies an item: a primary key, or unique and not null. Its text is the item's key.
	Key string
	// Where is the condition, in SQL, under which a row is to be done. In it, t is the row. An index should serve it.
	Where string
	// OrderBy is the order, in SQL, in which rows are claimed: the first one that is due. Default: any.
	OrderBy string
	// Select lists the columns, in SQL, that Scan turns into the item's value.
	Select string
	// Scan turns a row with these columns into a value: pgx.RowTo[string], pgx.RowToStructByPos[T], or a function. If
	// it fails, the item has failed.
	Scan pgx.RowToFunc[I]
	// Done is the statement that marks the row with the key $1 as done, so that Where no longer holds: an update or
	// a delete. It runs in the transaction after Execute. If Execute itself deletes or marks the row, Done finds
	// nothing left to do. If it fails, or Where still holds after it, the item has failed.
	Done string
	// Failures is the table of attempts and parked items of all automations. Default goverse_automation_failures.
	Failures string
	// IdleTimeout is the time without a statement after which PostgreSQL ends an item's transaction. Without it, a
	// process that stands still would keep its rows locked forever. An executor that takes longer between two
	// statements has failed. Default 5 min; if negative, the server's setting applies.
	IdleTimeout time.Duration
	// RequestTimeout limits each statement, including the commit, that the source itself makes. It does not limit
	// Execute, nor Parked, Retry and CreateTables. Default 5 s.
	RequestTimeout time.Duration
	// Logger gets one line when the database cannot be reached or refuses writes, and one when it is back.
	// Default: none, because the automation logs its failures.
	Logger hclog.Logger
}

// plainName matches names that need no quotes, so that the name here and in psql is the same.
var plainName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)

func (c Config[I]) withDefaults() Config[I] {
	c.Failures = cmp.Or(c.Failures, "goverse_automation_failures")
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	return c
}

// Validate returns an error that matches automation.ErrBadConfig if the configuration is invalid. It sends nothing to
// the database, so it does not check the SQL.
func (c Config[I]) Validate() error {
	c = c.withDefaults()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: postgres.Config: %s", automation.ErrBadConfig, fmt.Sprintf(format, args...))
	}
	if c.DB == nil {
		return bad("DB is nil; give it a pgxpool.Pool")
	}
	for field, name := range map[string]string{"Table": c.Table, "Key": c.Key, "Failures": c.Failures} {
		if !plainName.MatchString(name) {
			return bad("%s is %q; write it in small letters, digits and underscores", field, name)
		}
	}
	for field, sql := range map[string]string{"Where": c.Where, "Select": c.Select, "Done": c.Done} {
		if sql == "" {
			return bad("%s is empty; give it the SQL", field)
		}
	}
	switch {
	case c.Scan == nil:
		return bad("Scan is nil; give it pgx.RowTo or another function")
	case c.RequestTimeout < 0:
		return bad("RequestTimeout is negative; leave it 0 for 5 s")
	}
	return nil
}
