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
