// Package postgres is a lease store for package elector in a table of PostgreSQL. Each store is one row, which
// one statement compares and swaps.
//
//	pool, err := pgxpool.New(ctx, url)
//	err = postgres.CreateTable(ctx, pool, nil) // or in your migrations
//	store, err := postgres.New(postgres.Config{DB: pool, Name: "reports"})
//	e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: host, …})
//
// The column leader_transitions is the fencing token. A transaction in the same database can check it, and is
// then refused as soon as another candidate leads:
//
//	SELECT 1 FROM goverse_leases
//	WHERE name = 'reports' AND leader_transitions = $1 FOR SHARE
//
// No row means that the term is over: roll back. A row means that no other term begins before this transaction
// ends. The leader cannot renew in the meantime either, so keep such transactions shorter than the
// LeaseDuration, or compare with a column of your own, as package elector describes.
//
// Use a pool. After a fail-over, connections to the former primary may stay open and be read-only. With the
// first error that shows this, the store closes them and uses new ones. Behind pgbouncer or another pooler that
// pools transactions, add default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the
// connection string; errors that come from its absence say so. See docs/operate/deploy.md for both.
//
// # What is not promised
//
//   - Nothing holds if a confirmed commit can be lost: with synchronous_commit off, or in a fail-over to a
//     replica that lags. The database must be the primary, because replicas answer late.
//   - A handover is not immediate. The store is not watched, so the next candidate leads up to RetryPeriod after
//     a release.
//
// Experimental: the API of this package may change in any minor release.
package postgres
