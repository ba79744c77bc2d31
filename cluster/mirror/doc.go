// Package mirror keeps an exact copy of the cluster's key range and publishes
// it as an immutable [state.Snapshot].
//
//	read at R ──► publish ──► watch from R+1 ──► fold ──► publish ──► …
//	   ▲                                                     │
//	   └── mark stale ◄── watch error, compaction, lag ◄─────┘
//
// One read and one watch carry everything: leadership, members, requests,
// accusations, shards. Readers load an atomic pointer; subscribers get one
// coalescing signal and never hold the mirror up.
//
// The watch alone cannot be trusted: a stream that was cut, or a server that
// lost its quorum, can stay silent for ever. Whoever reads etcd anyway (a
// session's renewal) tells [Mirror.Saw] what it saw; a mirror that
// has not reached it after LagTimeout reads anew.
//
// # What is not promised
//
// Snapshots are exact at their revision and may be old. Changes that followed
// each other quickly may reach a subscriber as one. Deciding whether this
// process may act on what it sees is not the mirror's business.
package mirror
