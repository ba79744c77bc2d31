// Package postgres keeps the effects of package once in PostgreSQL, for programs that have a database and no etcd. An
// effect runs at most once among all processes with sessions (package pgsession) in the same schema.
//
//	effects, err := postgres.New(session, postgres.Config{DB: pool})
//	err = effects.CreateTable(ctx)
//	...
//	result, err := effects.Once(ctx, "mail/42", func(ctx context.Context, token int64) ([]byte, error) {
//		return send(ctx) // outside of the database
//	})
//
// An effect has a mark, which is a row, and while an attempt runs, a claim of its session. Before the function runs,
// the mark says so; afterwards it has the outcome. Both writes commit only while the claim stands. A caller that gets
// the claim and finds a running mark knows that the attempt ended without recording its outcome.
//
//	            claim granted              the function returned
//	(no mark) ────────────────► running ──────────────────────────► done     the result is remembered
//	    ▲                          ▲ │ └──── it returned an error ──► failed ─┐
//	    │                          │ │                                        │ the next call runs it again
//	    │                          └─┼────────────────────────────────────────┘
//	    │                            └ the process died, or its session ─► unknown ── Resolve ─► done or failed
//	    └─────────── the retention has passed: done and failed marks only
//
// # In the caller's own transaction
//
// An effect that consists of writes to the same database needs no claim and is never unknown: [Effects.OnceTx] makes
// the mark part of the caller's transaction. The effect and its mark are committed together or not at all.
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	_, err = effects.OnceTx(ctx, tx, "payment/42", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
//		_, err := tx.Exec(ctx, "update accounts set …")
//		return nil, err
//	})
//	...
//	err = tx.Commit(ctx)
//
// The row is the lock: a second transaction waits until the first one has ended, and then finds its result, or runs
// the effect if it was rolled back. Once waits for it too.
//
// # What is not promised
//
//   - What packages once and pgsession do not promise. At most once holds only within the retention.
//   - An effect outside of the database may go on after its context has ended. The receiver should refuse it by its
//     token.
//   - A session that is closed while an attempt runs leaves the outcome unknown. Let the calls return first.
//   - Expired marks are deleted by later calls, some at a time. Without calls they stay, although no call finds them.
//   - Tokens are not CreateRevisions of etcd's: effects that move from etcd to PostgreSQL begin with other tokens,
//     and without their marks.
//
// Experimental: the API of this package may change in any minor release.
package postgres
