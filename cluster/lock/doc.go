// Package lock provides locks for the processes of a cluster. Each lock has a name, and one holder at a time or
// several that share it.
//
// Locks are granted first come, first served, across all processes. Every grant has a token that grows with each
// grant of the same name. Systems that a holder writes to should refuse a smaller token than they have seen
// ([Held.Token]).
//
// Cluster.Locks keeps the locks in etcd, on the node's session. [Memory] keeps them in the process, for tests and
// for programs that run alone. Both implement [LockRegistry].
//
// # What is not promised
//
//   - A holder's work may outlive its lock. The context of [Held] ends at the session's deadline; after that only
//     the token stops work that goes on.
//   - A key deleted out of band is noticed at the next renewal, at most a third of the TTL later. The next holder
//     does not wait for that.
//   - A lock does not outlive its session. After a pause longer than the TTL all locks are lost, and waiting
//     callers queue again, at the tail.
package lock
