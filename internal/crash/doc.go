// Package crash removes a member after its process has died, before its lease expires.
//
// The kernel closes a dead process's sockets at once; its lease runs for up to a TTL longer. So each member
// keeps a stream open to a few others ([Settings]). When a stream breaks without a goodbye, the watcher dials
// again. Several refused connections in a row, or an answer of another instance, are evidence. Silence is none here.
//
//	stream broke ──► evidence ──► accusation ──(grace period)──► removal
//	                                  │
//	                                  └──(deleted by the accused: it lives)──► refuted
//
// With evidence the watcher writes an accusation into the range that every member watches, and waits a
// grace period from etcd's acknowledgement. A living member deletes the accusation. If it still stands after
// the grace period, one transaction removes the member's keys, guarded by that accusation and by the
// incarnation. Then the lease is revoked. A process that starts at the address of a dead one does the same
// ([Accuser]). Package internal/crash/suspicion decides which action follows from which sign.
//
// The grace period is the longest of three: Settings.GracePeriod (100 ms), five of the watcher's requests to
// etcd, by the least of three, and five of the accused's own requests, according to its record. A refutation
// needs one round trip, for the accusation's event and the refutation itself. For a member at one-way distance
// d from etcd, with watchers near etcd, the grace period is at most max(100 ms, 12.5 d). If such a member is
// killed, it is removed that long after its connections broke, plus the few milliseconds that a near watcher
// needs. A member with a grace period of more than a third of its TTL is never accused: its lease decides.
//
// A member that loses a watcher may be accused next and may not learn of it. So it has etcd confirm its keys at
// once. If there is no answer within its grace period and another 200 ms (twice Settings.GracePeriod), its
// session is suspended until there is one ([etcdsession.Session.Suspect], which allows a slow round more time).
//
// # Silent members
//
// With Settings.SilenceTimeout a member arms its watchers ([heartbeat.Armer]), which may then accuse it of silence and
// remove it, too. It lives on their acknowledgements, or on reads of etcd (deadline.Proofs). Package
// internal/crash/silence decides for the watcher. A goodbye releases an armed watcher; one that was not received is
// said again, also by a watcher that only may be armed.
//
// # What is not promised
//
// A living member is removed if it refuses connections and at the same moment is paused or cut off from etcd
// for its grace period. The same may happen to a member that is suddenly farther from etcd than its record
// says, in two cases: for three renewal rounds, which is one TTL, after its distance has grown more than
// fivefold, and while other nodes run a version that ignores the record. Such a member leads on until its
// session is suspended, for twice Settings.GracePeriod (0.2 s) or ten requests to etcd from the loss of its
// watcher. It leads on until its deadline if its connections broke shortly before it was cut off, so that etcd
// could clear the suspicion, or did not break at all. Tokens cover that. Settings.Off on all nodes excludes it.
package crash
