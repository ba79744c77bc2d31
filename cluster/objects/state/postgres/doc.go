// Package postgres keeps the states of objects in a table of PostgreSQL's: one row for each object, compared
// and replaced in one statement, and the replies to its calls in a second table, written by the same one.
//
//	pool, err := pgxpool.New(ctx, url)
//	err = postgres.CreateTables(ctx, pool, "") // or in your migrations
//	store, err := postgres.New(postgres.Config{DB: pool})
//	s, err := state.Load(ctx, store, o, &pb.Cart{})
//
// Rows of your own can be written in the transaction that saves the state: see [Store.InTx], and
// [Store.WithTx] for a transaction that you begin and commit yourself.
//
// A row that was claimed for an object without a state, and the replies, are removed when they are older than
// Config.Retention, few at a time, by the saves that come after that. Times are those of PostgreSQL's clock.
//
// Where epochs have begun anew, with an etcd that lost its data, stop all nodes and let objects be loaded again:
//
//	update goverse_objects set epoch = 0
//
// Give it a pool: after a fail-over, connections to the former primary, which may stay open and be read-only, are
// closed with the first error that says so, and new ones are used. Behind pgbouncer or another pooler of
// transactions, add default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the connection string;
// errors for want of it say so. docs/operations.md has more of both.
//
// # What is not promised
//
//   - Anything where a commit can be lost that was confirmed: synchronous_commit off, or a fail-over to a
//     replica that lags. The database has to be the primary.
//   - That an object which never had a state can be saved when it was loaded longer than Config.Retention
//     ago: its claim may be gone, and the save is a state.ErrConflict, after which it is loaded anew.
//   - That old replies go where nothing is saved any more with a request id.
package postgres
