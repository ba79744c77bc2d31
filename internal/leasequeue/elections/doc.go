// Package elections holds named elections: any number of them, all on one session of the
// process. A program can stand in some and only follow others.
//
//	outbox, err := elections.Stand("outbox")
//	err = outbox.Lead(ctx, func(ctx context.Context, t election.Term) error {
//		return publish(ctx, t.Token()) // until ctx ends: the term is over
//	})
//
// Each election is a queue: who came first leads first, and leads until it resigns, stops, or
// its session ends. Two things move candidates out of that order, each by its own will: the
// Priority that some stand with, and a Transfer that somebody asks for. A term's token is
// larger than that of every term before, and Term.Txn writes to etcd only while the term stands.
//
// The cluster's own election (package leaderelection) is another one: it decides who plans, and
// has a fallback. These have none: where etcd denies them, nobody leads, and Err says why.
//
// # What is not promised
//
//   - That work ends with its term. Who gives way waits for its functions for a bounded time;
//     what goes on after that is stopped by the token alone.
//   - That a leader whose key was deleted out of band knows it before the next one leads:
//     its watch reports it as that one's does, or else the session, within a third of the TTL.
//   - That a preferred node leads: it does when all who stand before it know of priorities, and
//     have let it pass.
//   - That what is said of others is current: Leader is as old as the last event. IsLeader is
//     about this process alone, and exact.
package elections
