package pg

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// InSchema puts the quoted name of a schema in place of each {{schema}} in statements.
func InSchema(schema, sql string) string {
	return strings.ReplaceAll(sql, "{{schema}}", pgx.Identifier{schema}.Sanitize())
}

// CreateTables runs statements that make tables, in one transaction. Another program may run them at the same time:
// PostgreSQL does not make one thing twice at once, IF NOT EXISTS or not, so each takes the advisory lock of that
// number. It waits for the lock however long, whatever the lock_timeout of the connection. CreateTables blocks until
// PostgreSQL has answered or ctx ends.
func CreateTables(ctx context.Context, db Querier, lock int64, sql string) error {
	_, err := db.Exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '0', true); SELECT pg_advisory_xact_lock(%d);\n",
		lock)+sql, pgx.QueryExecModeSimpleProtocol) // one query string is one transaction
	return err
}

// HasTables reports whether each table is there, with the column that the latest release to change it has added. Names
// of tables are quoted. A caller that asks first needs no right to create tables that are there. A missing table is no
// error, which would abort a transaction. HasTables blocks until PostgreSQL has answered or ctx ends.
func HasTables(ctx context.Context, db Querier, latest map[string]string) (bool, error) {
	for table, column := range latest {
		var has bool
		if err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND "+
			"attname = $2 AND NOT attisdropped)", table, column).Scan(&has); err != nil || !has {
			return false, err
		}
	}
	return true, nil
}
