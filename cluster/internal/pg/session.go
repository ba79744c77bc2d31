package pg

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// readOnlySinceKey is the key, in a connection's custom data, of the time since which the connection has been
// read-only. The zero time means that it was writable when it was last checked.
const readOnlySinceKey = "github.com/goverse/goverse/cluster/internal/pg"

// staleAfter limits how long a connection is kept that was read-only from the beginning. The pool may be meant
// for a replica that is only read, or may have been filled in the middle of a fail-over.
const staleAfter = 2 * time.Second

// connCurrent reports whether a connection answers as the primary would. It costs no request: PostgreSQL 14 and
// later report with each answer whether the session is read-only. A connection that was writable and no longer
// is belongs to a server that was the primary.
func connCurrent(conn *pgx.Conn, now time.Time) bool {
	c := conn.PgConn()
	if conn.IsClosed() {
		return true // the caller gets an error from the connection
	}
	if c.ParameterStatus("in_hot_standby") != "on" && c.ParameterStatus("default_transaction_read_only") != "on" {
		c.CustomData()[readOnlySinceKey] = time.Time{}
		return true
	}
	since, seen := c.CustomData()[readOnlySinceKey].(time.Time)
	if !seen {
		c.CustomData()[readOnlySinceKey] = now
		return true
	}
	return !since.IsZero() && now.Sub(since) < staleAfter
}
