// Package postgres keeps the checkpoints of processors in PostgreSQL, in the transaction of
// what the handler writes: both take effect, or neither does. And it reads events from a table
// there: see [Source].
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
// So each event takes effect once, wherever it is read from, however often processes die: the
// transaction of one that another has overtaken finds a larger token in the checkpoint's row, and is
// rolled back. The row is locked only for the moment in which it is written.
//
// A handler's error that is PostgreSQL's and no fault of the event's (the connection, a server that
// stops or is full, a deadlock, a lock that is not to be waited for) does not count as an attempt,
// as if it matched processor.ErrUnavailable. Return such errors wrapped with %w.
//
// Give it a pool: after a fail-over, connections to the former primary, which may stay open and be read-only, are
// closed with the first error that says so, and new ones are used. Behind pgbouncer or another pooler of
// transactions, add default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the connection string;
// errors for want of it say so. docs/operations.md has more of both.
//
// # What is not promised
//
//   - Anything about what a handler does outside that transaction.
//   - That the next leader need not wait for a process that stands still in a transaction: what
//     that has locked stays locked until PostgreSQL ends it, after Config.IdleTimeout.
package postgres
