// Package watchcache keeps an exact copy of the cluster's key range and publishes
// it as an immutable [state.Snapshot].
//
//	read at R ──► publish ──► watch from R+1 ──► fold ──► publish ──► …
//	   ▲                           ▲                         │ lag
//	   │                           └── nothing missing ◄── compare
//	   └── pause ◄── mark stale ◄── watch error, compaction, change missing
//
// One read and one watch carry everything: leadership, members, requests,
// accusations, shards. Readers load an atomic pointer; subscribers get one
// coalescing signal and never hold the mirror up.
//
// The watch alone cannot be trusted: a stream that was cut, or a server that
// lost its quorum, can stay silent forever. The one that reads etcd anyway (a
// session's renewal) reports to [Mirror.Saw] what it saw; a mirror that has not
// reached it after LagTimeout compares its snapshot with etcd, by a small read, and
// reads anew if it lacks a change. Behind `etcd grpc-proxy`, whose watches report no
// progress, that is how it keeps up while others write.
//
// # What is not promised
//
// Snapshots are exact at their revision and may be old. Changes that followed
// each other quickly may reach a subscriber as one. Deciding whether this
// process may act on what it sees is not the mirror's business.
package watchcache
