// Package leasequeue keeps entries in lease queues in etcd. It serves many named queues and many callers of one
// process, on one session at a time. The first entry of a queue is granted; packages etcdlock, elections and
// effects build locks, leadership and effects on that. One [Engine] serves all of them; each has [Queues] under
// a root of its own.
//
// Each entry is a key on the session's lease. The key with the smallest CreateRevision is the first. An
// [Entry] is decided when it is granted, or when it is certain that it never will be. Its holder then has a
// [Grant]. Many operations share one transaction (group commit): operations that arrive while every lane has a
// transaction in flight go with the next one. Each transaction writes a batch number and is conditional on the
// number before it. So if its answer is lost, the engine can still find out whether it was committed, or make
// sure that it never will be. A request that reaches etcd late leaves nothing behind.
//
// A standing watch notifies the waiting entries. All entries of one bucket, a part of the queues by the hash of
// their names, share a watch. The watch is opened before the queue is read, because etcd serves such a watch at
// once; a watch that continues from an older revision is served only when etcd next looks at watchers that lag.
//
// # Inside
//
// Package entrystate decides the state of an entry, and package order the order in a queue; both are pure. An
// engine has one mutex, and all mutable state is written under it. Readers that may not block, such as
// [Grant.Valid], use atomics instead. While the mutex is held, no callback runs, no context is cancelled, and
// no other lock of this module is taken: these are queued as notices and delivered once the mutex is released
// (see [Engine.unlock]).
//
//	Entry ──► outbox ──► lane ──► etcd               an operation and its outcome
//	  ▲                    │
//	  └── entrystate ◄─────┴── bucket ◄── watch      first in its queue, or gone from it
//
// # What is not promised
//
// A key that was deleted out of band is not noticed at once, but up to a third of the TTL later.
package leasequeue
