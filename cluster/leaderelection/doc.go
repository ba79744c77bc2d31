// Package leaderelection elects one leader among the copies of a program, with etcd and nothing else: no port, no node.
//
//	election, runner, err := leaderelection.New(leaderelection.Config{EtcdPrefix: "/orders"})
//	err = runner.Start(ctx)
//	defer runner.Stop(context.Background())
//	err = election.LeadEach(ctx, func(ctx context.Context, term leaderelection.Term) error {
//		return publish(ctx, term.Token()) // until ctx ends, which is when the term ends
//	})
//
// The nodes of package cluster use the same implementation, and their handles have the same methods. The package also
// has the vocabulary of all elections: Term, Leader, and the errors.
//
// # How it works
//
// A [LeaderElection] queues with concurrency.Election under <prefix>/leader, first come, first served. Programs
// that use that recipe on the same prefix take part too. It differs from the recipe in the condition for
// leading:
//
//	queued ──(the snapshot shows the own key first, the session is valid)──► leading
//	leading ──(resign, asked to give way, key lost, session lost)──► queued at the tail
//
// The snapshot may promote; the session's deadline demotes. So [LeaderElection.IsLeader] needs no network, and
// it is false on the old leader before it can be true on the next, even after the process was paused. Every
// term has a token that only grows ([Term.Token]). With [Term.Txn], etcd refuses a write of a term that is
// over.
//
// A pure state machine, package internal/member/candidacy, decides whether this node leads and which of its own
// keys to create, delete or repair. This package carries that out.
//
// If the election of nodes cannot work, because etcd refuses the candidates' keys or campaigning fails repeatedly, the
// smallest address leads until it works again; see section "Fallback" of docs/protocols.md. A moment without a
// leader between two terms never counts as a failure.
//
// # What is not promised
//
// If a leader's key is deleted or its lease revoked out of band, the next candidate leads at once. The old
// leader learns of it from its watch within milliseconds, at the latest at its next renewal. An outside
// candidate does not wait for an acting leader. Tokens cover both. Work that ignores the end of its context
// runs on; only the token stops it.
//
// A process of an election by itself is replaced at the end of its TTL when it is killed: only nodes watch each other.
// There is no fallback among such processes.
package leaderelection
