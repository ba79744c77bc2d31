// Package postgres keeps the states of objects in a table of PostgreSQL. Each object has one row, which one
// statement compares and replaces. The same statement writes the replies to the object's calls to a second
// table.
//
//	pool, err := pgxpool.New(ctx, url)
//	err = postgres.CreateTables(ctx, pool, "") // or in your migrations
//	store, err := postgres.New(postgres.Config{DB: pool})
//	s, err := state.Load(ctx, store, o, &pb.Cart{})
//
// To write rows of your own in the transaction that saves the state, use [Store.InTx], or [Store.WithTx] for a
// transaction that you begin and commit yourself.
//
// Rows of claimed objects without a state, and replies, are removed when they are older than Config.Retention.
// Later saves remove them, a few at a time. PostgreSQL's clock determines the times.
//
// If epochs have started again because etcd lost its data, stop all nodes and allow objects to be loaded again:
//
//	update goverse_objects set epoch = 0
//
// Use a pool. After a fail-over, connections to the former primary may stay open and be read-only. With the
// first error that shows this, the store closes them and uses new ones. Behind pgbouncer or another pooler that
// pools transactions, add default_query_exec_mode=cache_describe (or exec, or simple_protocol) to the
// connection string; errors that come from its absence say so. See docs/operate/deploy.md for both.
//
// # What is not promised
//
//   - Nothing holds if a confirmed commit can be lost: with synchronous_commit off, or in a fail-over to a
//     replica that lags. The database must be the primary.
//   - An object that never had a state may be impossible to save if it was loaded longer than Config.Retention
//     ago. Its claim may be gone; the save is then a state.ErrConflict, after which the object is loaded anew.
//   - Old replies stay in the table if no saves with a request id follow.
//
// Experimental: the API of this package may change in any minor release.
package postgres
