// Package elections provides named elections: any number of them, all on one session of the process. A program
// can be a candidate in some and only observe others.
//
//	outbox, err := elections.Stand("outbox")
//	err = outbox.Lead(ctx, func(ctx context.Context, t leaderelection.Term) error {
//		return publish(ctx, t.Token()) // until ctx ends: the term is over
//	})
//
// Each election is a lease queue: the first to stand leads first, and leads until it resigns, stops, or loses
// its session. Two things change that order, and in both the candidates move by themselves: the Priority of a
// candidate, and a Transfer that a node requests. The token of a term is larger than those of all earlier
// terms, and Term.Txn writes to etcd only while the term stands.
//
// The cluster's own election is another one (package leaderelection). It decides which node plans, and has a
// fallback. Named elections have none: if etcd denies them there is no leader, and Err returns the reason.
//
// # What is not promised
//
//   - Work does not necessarily end with its term. A leader that gives way waits for its functions for a
//     bounded time. Only the token stops those that run on.
//   - A leader may not notice that its key was deleted out of band before the next one leads. Its watch reports
//     the deletion to it as to the next one; without that, the session finds it within a third of the TTL.
//   - A preferred candidate does not lead at once. All candidates ahead of it must know priorities and let it
//     pass first.
//   - Information about other nodes may be stale: Leader is as old as the last event. IsLeader concerns this
//     process alone and is exact.
package elections
