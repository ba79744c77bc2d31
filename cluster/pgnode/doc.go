// Package pgnode makes this process a node of a cluster in PostgreSQL, for programs without etcd. Each node knows the
// others, which of them leads, and the history of the cluster. It stands on a session of package pgsession.
//
//	session, err := pgsession.Open(ctx, pgsession.Config{URL: url, Owner: "billing-1"})
//	node, err := pgnode.Join(ctx, session, pgnode.Config{HTTPAddress: "billing-1:8080"})
//	http.Handle("/ops/", http.StripPrefix("/ops", httpapi.New(node, httpapi.Options{})))
//	leads := leaderonly.NamedElection(node.Election(), node.ID(), node.URLOf)
//	...
//	err = node.Leave(ctx)
//
// The tables node, lease and event lie in the schema of the session. People read them with psql, tools with [Read],
// [ListEvents] and [FollowEvents]. A node writes a heartbeat and reads the nodes once a second, and at once after a
// change, on one connection of its own beside the three of the session.
//
// # Deciding and recording
//
// The claims of the sessions alone decide which node leads: see package cluster/leaderelection/postgres. The rows of
// nodes and leases follow from that, for people and for lists, and nothing is decided by them. A row that was changed
// by hand changes no leader; one that was deleted is made again.
//
// A node is lost when its session has ended. Any other node then deletes its row, and records that in the same
// transaction, so once. Joining and leaving are recorded in their own transactions, too; the terms of leaders just
// after they begin and end, so the next term may be recorded before the end of the last one. Records wait for each
// other, so the order of event.Event.Seq is that of the commits: a reader that follows the log skips none.
//
// # What is not promised
//
//   - What package pgsession does not promise. The crash of a process is noticed after the session's deadline.
//   - That each event is recorded: a term that ends while PostgreSQL is away may have none, or another reason than its
//     leader knows.
//   - That a view is current: it is as old as Status.ViewSeen says, usually less than a second.
//   - Shards, objects, drains, transfers and crash detection. They need etcd.
//
// Experimental: the API of this package may change in any minor release.
package pgnode
