// Package pg gives the stores in PostgreSQL connections that take writes, and says in one line what is wrong where
// there are none.
//
// After a fail-over a pool may be full of connections to the server that was the primary. They stay open, and
// their sessions are read-only; a pool keeps a connection for an hour. [DB] closes such a connection, and those
// beside it in the pool, and tries the statement on a new one if it was certainly not carried out.
//
// Not promised: that the new connection reaches the new primary, which is for the address, a proxy or
// target_session_attrs=read-write to bring about; nor anything about what is done on the pool directly.
package pg
