// Package pgsession keeps a session of this process in PostgreSQL, for programs that have a database and no etcd. Locks
// (package cluster/lock/postgres) and what is built on them are held in it.
//
//	session, err := pgsession.Open(ctx, pgsession.Config{URL: os.Getenv("DATABASE_URL")})
//	defer session.Close(context.WithoutCancel(ctx))
//	locks := postgres.New(session) // package cluster/lock/postgres
//
// One session serves a whole process, with any number of locks. It uses three connections of its own, and none of a
// pool.
//
// The session rests on a deadline, like one in etcd: a heartbeat is sent five times in that time, and what is held may
// be relied on until the deadline after the last confirmed one was sent. Others take over when they have seen no
// heartbeat for as long. A process that ends its session or whose connection ends gives everything up in milliseconds.
//
// # What is not promised
//
//   - After PostgreSQL was started again or a standby was promoted, nothing is granted for the deadline.
//   - A fail-over that leaves the old primary running lets both grant the same lock, unless replication is synchronous.
//     Then the old primary can confirm no heartbeat, and its holders stop.
//   - A fail-over to a standby that lacks the last commits (asynchronous replication) does not give a token again,
//     provided that its clock is not behind the old primary's.
//   - A pooler that pools transactions cannot be used: [ErrPooled].
//
// Experimental: the API of this package may change in any minor release.
package pgsession
