// Package pgserver starts PostgreSQL servers of their own, from the installed package, for
// tests and benchmarks.
//
//	db := pgserver.ForTest(t)                 skips where PostgreSQL is not installed
//	pool, err := pgxpool.New(ctx, db.URL())
//
// Each server has a directory of its own, listens at a port of 127.0.0.1 and trusts any client that
// comes from there, so it is for nothing else. It writes to the disk as it does by default.
//
// It is for unix alone, and so are the tests that use it: elsewhere this package is empty.
//
// Not promised: that a server ends with a process that is killed, on systems other than Linux.
package pgserver
