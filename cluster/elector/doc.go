// Package elector elects one leader among candidates that share one record, the lease. The record is kept in etcd
// ([NewEtcd]), in PostgreSQL or Redis (packages postgres and redis), or in any store that can compare and swap
// ([LeaseStore]). docs/guides/lease-stores.md compares them and shows how to write one. The elector works like that of
// Kubernetes and has the same callbacks. A program with a cluster does not need it, because named elections
// hand over faster and in order. It is for programs that have only a database or a store of their own.
//
//	         the lease is vacant, and this candidate's write won
//	candidate ────────────────────────────────────────────────► leader ◄──┐
//	    ▲                                                          │  └────┘ renewals that were answered
//	    │ OnStoppedLeading has returned                            │ none for LeaseDuration, or the
//	    │                                                          ▼ record is another's, or Run is cancelled
//	    └──────────────────────────────────── OnStartedLeading is waited for
//
// A leader leads for LeaseDuration less 1 %, by its own clocks, from the time at which it sent its last renewal
// that was answered. Each other candidate waits until it has seen the record unchanged for LeaseDuration, by
// its own clock. So clocks of different hosts are never compared, and [Elector.IsLeader] needs no network. A
// record that its holder has released is vacant at once.
//
// Work begins in three ways, and the lease is not released before all of it has returned: OnStartedLeading runs in
// each term, [Elector.Lead] waits for a term, and [Elector.AsLeader] runs only if this candidate leads now. With Lead,
// an Elector is the LeaderLock of any number of processors (package processor).
//
// Unlike the elector of Kubernetes, [Elector.Run] campaigns again after a lost term. It ends when its context
// does. A program that should end with its leadership cancels that context in OnStoppedLeading.
//
// # Tokens
//
// The token of a term ([TokenFrom], [Elector.Token]) is the lease's LeaderTransitions. It grows with each term,
// also if the same candidate leads again. Systems to which a leader writes should refuse tokens smaller than
// the largest they have seen, because work may continue after its context has ended, or in a process that stood
// still. In SQL, with a column for the token of the last write:
//
//	UPDATE reports SET body = $2, token = $1 WHERE id = $3 AND token <= $1
//
// If no row is updated, a later leader has written: stop. For work that touches many rows, keep one row for all
// of it and update that row first, in the same transaction.
//
// # What is not promised
//
//   - There is no order. The first candidate to write leads, not the first to come.
//   - A handover is not always fast. After a release it takes milliseconds while the store is watched
//     ([LeaseWatcher]), and otherwise up to RetryPeriod. After a crash it takes up to LeaseDuration + RetryPeriod.
//   - Two candidates may lead at once if both clocks of one stand still, as in a guest that its hypervisor
//     stopped, or if one clock runs 1 % slower than another's.
//   - Two candidates may lead, until the first one's next renewal, after an out-of-band change, or if the store
//     forgets confirmed writes: a database that is restored, or that fails over to a replica that lags. Tokens
//     cover that as long as the number in the record does not decrease.
//
// Experimental: the API of this package may change in any minor release.
package elector
