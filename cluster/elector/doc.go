// Package elector elects one leader among the candidates that share one record, the lease: in a
// table, in etcd, in anything that can compare and swap ([LeaseStore]). It works as the elector
// of Kubernetes does, and with its callbacks. A program that has a cluster needs none of it, for
// its named elections hand over faster and in order; this is for those who have a database, or a
// store of their own, and nothing else.
//
//	         the lease is vacant, and this candidate's write won
//	candidate ────────────────────────────────────────────────► leader ◄──┐
//	    ▲                                                          │  └────┘ renewals that were answered
//	    │ OnStoppedLeading has returned                            │ none for LeaseDuration, or the
//	    │                                                          ▼ record is another's, or Run is cancelled
//	    └──────────────────────────────────── OnStartedLeading is waited for
//
// A leader leads for LeaseDuration, less 1 %, from when its last renewal that was answered was
// sent, on its own clocks; the others wait until they have seen the record unchanged for
// LeaseDuration, each on its own clock. So nobody compares the clocks of two hosts, and
// [Elector.IsLeader] needs no network. A record whose holder gave it back is vacant at once.
//
// [Elector.Run] campaigns again after a term that was lost, unlike its model, which returns: it
// ends when its context does. A program that is to end with its leadership cancels that context
// in OnStoppedLeading.
//
// # Tokens
//
// A term's token ([TokenFrom], [Elector.Token]) is the lease's LeaderTransitions: it grows with
// each term, no matter which candidate leads it, also if the same candidate leads again. What a leader writes to
// should refuse a smaller one than it has seen, because work may go on after its context ended,
// or in a process that stood still. In SQL, with a column for the token of the last write:
//
//	UPDATE reports SET body = $2, token = $1 WHERE id = $3 AND token <= $1
//
// No row updated: a later leader was here; stop. For work that touches many rows, keep one row
// for all of it, and update that first, in the same transaction.
//
// # What is not promised
//
//   - Order. The one that writes first leads, not the one that came first.
//   - A fast handover everywhere. After a release it takes up to RetryPeriod, unless the store is
//     a [LeaseWatcher]; after a crash up to LeaseDuration + RetryPeriod.
//   - Clocks of which both stand still, as in a guest that its hypervisor stopped, or of which one
//     runs 1 % slower than another's.
//   - Out-of-band changes, or a store that forgets what it confirmed, as a database that fails over
//     to a replica that lags, or that is restored: two may lead until the first one's next
//     renewal. Tokens cover it as long as the number in the record does not become smaller.
package elector
