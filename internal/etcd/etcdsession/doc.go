// Package etcdsession opens and renews sessions. A session is one etcd lease with a safe deadline.
//
// A [Session] may be relied on exactly as long as [Session.Valid] is true. The deadline is computed in this
// process: the instant before the renewal was sent, plus the granted TTL, less a margin for clocks that run at
// different rates. etcd counts from a later instant, so it cannot end the lease before the deadline. A caller
// that acts only while Valid is true therefore acts alone. The deadline moves only if the renewal succeeded and
// a linearizable read sent after its answer showed every key that the session depends on ([Session.ProtectKey]),
// in the same raft term. Otherwise a deposed leader of etcd that is not yet aware of it could renew a lease
// without its successor's knowledge.
//
// Both clocks are read. No step of the wall clock affects the monotonic one, but the monotonic clock stands
// still while a machine is suspended. Valid is false once either clock has passed the deadline.
//
//	                suspicion not cleared in time
//	open ──► valid ──────────────────────────► suspended
//	          │  ▲ ◄──────── confirmed ────────── │
//	          │  └ renewed every TTL/3            │
//	          └──────────────┬────────────────────┘
//	                         ▼
//	        lost: expired, revoked, closed, paused, starved, unreachable,
//	              permission, key lost, other history
//
// A lost session is never resumed. A [Keeper] revokes its lease as soon as etcd answers and opens the next one.
//
// # What is not promised
//
// If another process revokes the lease or deletes its keys, etcd shows that at once, but the session learns of
// it only from a watch or at its next renewal. A caller that checked Valid and was then paused may act too
// late. Guard such writes with a fencing token, in etcd's transaction or wherever the write lands. In a guest
// with both clocks stopped by its hypervisor, the session notices nothing.
package etcdsession
