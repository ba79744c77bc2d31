// Package pgserver starts PostgreSQL servers from the installed package, for tests and benchmarks.
//
//	db := pgserver.StartForTest(t)            skips where PostgreSQL is not installed
//	pool, err := pgxpool.New(ctx, db.URL())
//
// Each server has its own directory, listens on a port of 127.0.0.1 and trusts any client from there. Use it
// for nothing else. It writes to the disk as PostgreSQL does by default.
//
// The package exists only on Unix, as do the tests that use it; elsewhere it is empty.
//
// Not promised: on systems other than Linux, a server does not end with a parent that is killed.
package pgserver
