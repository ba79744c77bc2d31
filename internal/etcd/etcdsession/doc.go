// Package etcdsession is one etcd lease and the safe deadline that comes with it.
//
// A [Session] may be trusted exactly as long as [Session.Valid] is true. The
// deadline is computed here, from the instant before the renewal was sent, plus
// the granted TTL, less a margin for clocks that run at different rates. etcd
// counts from a later instant, so it cannot give the lease up before the
// deadline; a caller that acts only while Valid acts alone. The deadline moves only
// if the renewal succeeded and a linearizable read sent after its answer showed
// every key that the session stands on ([Session.Protect]), in the same raft term:
// a leader of etcd that was deposed and does not know it yet renews leases of which
// its successor knows nothing.
//
// Both clocks are kept: the monotonic one, which no step of the wall clock can
// deceive, and the wall clock, because the monotonic one stands still while a
// machine is suspended. Valid is false once either has passed the deadline.
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
// A lost session is never resumed. A [Keeper] revokes its lease as soon as etcd
// answers and opens the next one.
//
// # What is not promised
//
// If somebody else revokes the lease or deletes its keys, etcd shows that at
// once, and the session learns it from a watch or at its next renewal.
// A caller that checked Valid and was then paused may act late: guard what must
// not be late with a fencing token, in etcd's transaction or wherever the write
// lands. A guest whose hypervisor stops both clocks notices nothing.
package etcdsession
