// Package postgres holds elections in PostgreSQL, on a session of package pgsession, for programs without etcd. Its
// candidates are used like those of Cluster.Elections: by the program itself, by package processor and by package
// leaderonly.
//
//	elections := postgres.New(session)
//	outbox, err := elections.Stand("outbox")
//	err = outbox.LeadEach(ctx, func(ctx context.Context, t leaderelection.Term) error {
//		return publish(ctx, t.Token()) // until ctx ends: the term is over
//	})
//
// An election is a queue, first come, first served. A leader leads until it resigns, withdraws, or its session ends.
// Its address, in [leaderelection.Leader] and in queues, is the Owner of its session.
//
// # What is not promised
//
//   - What package pgsession does not promise.
//   - A term's Guard and Txn concern etcd, and are of no use here. [Fence] binds a transaction of the same database to
//     the term.
//   - There are no priorities and no transfers: a leader that is to give way resigns.
//
// Experimental: the API of this package may change in any minor release.
package postgres
