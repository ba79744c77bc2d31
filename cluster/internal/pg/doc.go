// Package pg provides the stores in PostgreSQL with connections that accept writes. If there are none, its
// errors tell the cause in one line.
//
// After a fail-over, a pool may be full of connections to the server that was the primary. They stay open with
// read-only sessions, and a pool keeps a connection for an hour. [DB] closes such a connection and the others
// in its pool. It repeats the statement on a new connection if the statement certainly had no effect.
//
// A [Subscription] receives notifications on a connection of its own, and notices if its server is no longer the
// primary.
//
// Not promised: pg does not make new connections reach the new primary. The address, a proxy or
// target_session_attrs=read-write must do so. Statements that a program runs on the pool directly are not
// covered.
package pg
