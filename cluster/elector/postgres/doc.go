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
// A change of the holder sends a notification on the channel goverse_leases, with the lease's name, when it is
// committed. Over a pool, each elector that runs has a connection of its own that listens, so the next candidate
// leads milliseconds after a release. The connection is taken out of the pool, which replaces it: the server needs
// to accept one more for each elector. If the connection fails, another one is opened after a pause, the elector
// logs one line at the loss and one at the return, and candidates read the row every RetryPeriod meanwhile. Over a
// *pgx.Conn or a pgx.Tx, and behind a pooler that pools transactions, they always do.
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
//   - A notification is a hint to read the row, and may be lost. The next candidate then leads up to RetryPeriod
//     after the release. No notification is sent if a row is changed or deleted by hand.
//
// Experimental: the API of this package may change in any minor release.
package postgres
