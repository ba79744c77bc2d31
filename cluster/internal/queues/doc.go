// Package queues keeps places in queues at etcd: many queues, each with a name, on one session
// at a time, for many who want one. Who is first has what the queue is about: a lock, or a
// leadership; packages lock and elections make that of it.
//
// Each place is a key on the session's lease, and the key with the smallest CreateRevision is
// the first. Many operations go in one transaction (group commit): what arrives while all lanes
// have one under way goes with the next. A transaction carries a number that only the one before it
// allows, so that one whose answer was lost is known to have been made, or never to be made any
// more; and a request that etcd sees late leaves nothing behind.
//
// Who waits is told by a standing watch of the part of all queues that this one lies in, one
// for all who wait there, never by one watch each. It is opened before the queue is read, so
// that etcd tells at once, and not when it next looks at those who lag.
//
// Not promised: that a key which hands from outside have deleted is missed at once; it takes a
// third of the TTL.
package queues
