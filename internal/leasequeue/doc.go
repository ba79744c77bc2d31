// Package leasequeue keeps entries in queues at etcd: many queues, each with a name, on one
// session at a time, for many callers in a process. The first entry has what the queue is
// about: a lock, or a leadership; packages etcdlock, elections and effects make that of it. One
// [Engine] serves all of them, each with [Queues] under a root of its own.
//
// Each entry is a key on the session's lease, and the key with the smallest CreateRevision is
// the first. Many operations go in one transaction (group commit): what arrives while all lanes
// have one in flight goes with the next. A transaction carries a number that only the one before it
// allows, so that one whose answer was lost is known to have been committed, or never to be
// committed any more; and a request that reaches etcd late leaves nothing behind.
//
// Waiting entries are notified by a standing watch of the part of all queues that they lie in,
// one watch for all that wait there, never by one watch each. It is opened before the queue is
// read, so that etcd notifies at once, and not when it next looks at watchers that lag.
//
// # Inside
//
// What becomes of an entry is decided by package entrystate, and who is first in a queue by package
// order, both without state or lock. An engine has one mutex, and everything that changes is
// written under it; what readers need at any moment ([Entry.Valid]) is read without it. Nobody is
// called back, and no other lock of ours taken, while it is held: callbacks and ended contexts are notices,
// delivered after it was released (see [Engine.unlock]).
//
//	Entry ──► outbox ──► lane ──► etcd        an operation, and what came of it
//	  ▲                    │
//	  └── place ◄──────────┴── bucket ◄── watch   first in its queue, or gone from it
//
// Not promised: that a key which was deleted out of band is missed at once; it takes a
// third of the TTL.
package leasequeue
