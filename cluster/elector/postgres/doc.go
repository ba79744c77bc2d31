// Package postgres is a lease store for package elector in a table of PostgreSQL's: one row for
// each store, compared and swapped in one statement.
//
//	pool, err := pgxpool.New(ctx, url)
//	err = postgres.CreateTable(ctx, pool, nil) // or in your migrations
//	store, err := postgres.New(postgres.Config{DB: pool, Name: "reports"})
//	e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: host, …})
//
// The row's number, leader_transitions, is the fencing token. Work in the same database can read
// it in the transaction that writes, and so is refused at once when another one leads:
//
//	SELECT 1 FROM goverse_leases
//	WHERE name = 'reports' AND leader_transitions = $1 FOR SHARE
//
// No row: the term is over, roll back. A row: no other term begins before this transaction ends.
// A leader cannot renew meanwhile either, so keep such transactions shorter than the
// LeaseDuration, or compare with a column of your own instead, as package elector says.
//
// Give it a pool: after a fail-over, connections to the former primary, which may stay open and be read-only, are
// closed with the first error that says so, and new ones are used. Behind pgbouncer or another pooler of
// transactions, add default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the connection string;
// errors for want of it say so. docs/operations.md has more of both.
//
// # What is not promised
//
//   - Anything where a commit can be lost that was confirmed: synchronous_commit off, or a
//     fail-over to a replica that lags. The database has to be the primary: replicas answer late.
//   - A handover at once: this store is not watched, so who is next leads up to RetryPeriod after
//     a release.
package postgres
