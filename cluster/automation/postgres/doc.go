// Package postgres lets automations work off rows of a table in PostgreSQL. Each row that is due is claimed with FOR
// UPDATE SKIP LOCKED, in a transaction of its own, in which it is executed and marked as done.
//
//	invoices, err := postgres.NewSource(postgres.Config[Invoice]{
//		DB: pool, Table: "invoices", Key: "id", Where: "sent is null",
//		Select: "customer, amount", Scan: pgx.RowToStructByPos[Invoice],
//		Done: "update invoices set sent = now() where id = $1",
//	})
//	err = invoices.CreateTables(ctx)
//	mails, err := automation.New(automation.Config[Invoice]{Name: "mails", Source: invoices, Concurrency: 4,
//		Execute: func(ctx context.Context, item automation.Item[Invoice]) error {
//			_, err := postgres.Tx(ctx).Exec(ctx, "insert into outbox …")
//			return err
//		}})
//
//	begin ──► select … for update skip locked ──► still due? ──► savepoint ──► Execute ──► Done ──► commit
//	                                                                 │
//	                               rollback to savepoint ◄── failed ─┘
//	                                        └──► store the attempt, the pause, or that it is parked ──► commit
//
// The row is locked until the commit, so no other process executes it, whatever happens to leaders, locks or sessions.
// What Execute writes in [Tx], the mark by Config.Done and the record of failures commit together. After the lock is
// granted, a second statement checks with a new snapshot that the row is still due: a former holder may have done it
// after this process looked for it.
//
// Attempts, pauses, errors and parked items are in a table of their own, for all processes. [Source.Parked] lists the
// parked ones, and [Source.Retry] makes one due again.
//
// If Execute fails with an error of PostgreSQL that the item did not cause (a broken connection, a server that stops or
// is full, a deadlock, a lock that is not available), the attempt does not count, as if the error matched
// processor.ErrUnavailable. Return such errors wrapped with %w.
//
// # What is not promised
//
//   - Effects of Execute outside the transaction are not covered: they take place at least once. See
//     automation.Config.Once.
//   - A process that stands still keeps its rows locked until PostgreSQL ends its transactions, after
//     Config.IdleTimeout. The other rows go on.
//   - A transaction that is open for long hinders VACUUM, so an item should take seconds, not hours.
//
// Experimental: the API of this package may change in any minor release.
package postgres
