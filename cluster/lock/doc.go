// Package lock gives locks to the processes of a cluster: each lock has a name, and one
// holder at a time, or several that share it.
//
// Who came first gets the lock first, whichever process it is in. Every grant has a token of
// its own that grows with each grant of that name: what a holder writes to should refuse a
// smaller token than it has seen ([Held.Token]).
//
// Cluster.Locks keeps the locks in etcd, on the node's session; [Memory] keeps them in the
// process, for tests and for programs that run alone. Both are a [LockRegistry].
//
// # What is not promised
//
//   - That a holder ends when its lock does. The context of [Held] ends at the session's
//     deadline; what goes on after that is stopped by the token alone.
//   - That a lock whose key was deleted out of band is known to be lost at once: it
//     takes a third of the TTL at most. The next holder does not wait for that.
//   - That a lock outlives its session. After a pause longer than the TTL all of the locks are
//     lost; callers that waited queue again, at the tail.
package lock
