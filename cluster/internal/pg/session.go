package pg

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// sinceKey is where a connection's custom data say since when it has been read-only; the zero time: it was writable
// when it was last seen.
const sinceKey = "github.com/goverse/goverse/cluster/internal/pg"

// staleAfter limits how long a connection is kept that was read-only from the beginning: a pool that only reads may
// be meant for a replica, and one that was filled in the middle of a fail-over is not.
const staleAfter = 2 * time.Second

// current reports whether what a connection answers is what the primary would. PostgreSQL 14 and later report with
// each answer whether the session is read-only, so that this costs no request. A connection that was writable and no
// longer is belongs to a server that was the primary.
func current(conn *pgx.Conn, now time.Time) bool {
	c := conn.PgConn()
	if conn.IsClosed() {
		return true // the error says so
	}
	if c.ParameterStatus("in_hot_standby") != "on" && c.ParameterStatus("default_transaction_read_only") != "on" {
		c.CustomData()[sinceKey] = time.Time{}
		return true
	}
	since, seen := c.CustomData()[sinceKey].(time.Time)
	if !seen {
		c.CustomData()[sinceKey] = now
		return true
	}
	return !since.IsZero() && now.Sub(since) < staleAfter
}
