// Package watchcache keeps an exact copy of the cluster's key range and publishes it as an immutable
// [state.Snapshot].
//
//	read at R ──► publish ──► watch from R+1 ──► fold ──► publish ──► …
//	   ▲                           ▲                         │ lag
//	   │                           └── nothing missing ◄── compare
//	   └── pause ◄── mark stale ◄── watch error, compaction, change missing
//
// One read and one watch carry everything: leadership, members, requests, accusations, shards. Readers load an
// atomic pointer. Subscribers receive one coalescing signal and never block the mirror.
//
// The watch alone cannot be trusted: a stream that was cut, or a server that lost its quorum, can stay silent
// forever. Code that reads etcd anyway, such as a session's renewal, therefore reports the revision that it saw
// to [Mirror.ObserveHeader]. A mirror that has not reached that revision after LagTimeout compares its snapshot with
// etcd, by a small read, and reads the range anew if it lacks a change. Watches through `etcd grpc-proxy`
// report no progress; there comparisons keep the mirror current while others write.
//
// # What is not promised
//
// Snapshots are exact at their revision but may be old. Changes in quick succession may reach a subscriber as
// one. The mirror does not decide whether this process may act on a snapshot.
package watchcache
