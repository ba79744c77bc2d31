// Package postgres keeps the checkpoints of processors in PostgreSQL, in the transaction in which the handler
// writes: both take effect, or neither does. It also reads events from a table; see [Source].
//
//	checkpoints, err := postgres.New(postgres.Config{DB: pool})
//	err = checkpoints.CreateTables(ctx)
//	events, err := postgres.NewSource(postgres.SourceConfig{DB: pool, Table: "events"})
//	views, err := processor.New(processor.Config[[]byte]{Source: events, Checkpoint: checkpoints,
//		Handler: func(ctx context.Context, e processor.Event[[]byte]) error {
//			_, err := postgres.Tx(ctx).Exec(ctx, "update totals set …")
//			return err
//		}, …
//
// Each event thus takes effect once, whatever its source and however often processes die. A transaction that
// another process has overtaken finds a larger token in the checkpoint's row and is rolled back. The row is
// locked only while it is written.
//
// If a handler fails with an error of PostgreSQL that the event did not cause, the attempt does not count, as
// if the error matched processor.ErrUnavailable. Such errors are a broken connection, a server that stops or is
// full, a deadlock, and a lock that is not available (NOWAIT, lock_timeout). Return them wrapped with %w.
//
// Use a pool. After a fail-over, connections to the former primary may stay open and be read-only. With the
// first error that shows this, the checkpoint closes them and uses new ones. Behind pgbouncer or another pooler
// that pools transactions, add default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the
// connection string; errors that come from its absence say so. See docs/operate/deploy.md for both.
//
// # What is not promised
//
//   - Effects of a handler outside the transaction are not covered.
//   - The next leader may have to wait for a process that stands still in a transaction. Its locks are held
//     until PostgreSQL ends the transaction after Config.IdleTimeout.
//
// Experimental: the API of this package may change in any minor release.
package postgres
