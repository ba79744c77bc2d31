// Package crash removes a member whose process is gone before its lease
// has run out.
//
// The kernel closes a dead process's sockets at once; a lease takes a TTL to notice.
// So each member keeps a stream open to a few others ([Settings]). When it breaks
// without a goodbye, the watcher dials again. Connections that are refused, several
// times in a row, and another instance that answers, are evidence; silence is none.
//
//	stream broke ──► evidence ──► accusation ──(grace period)──► removal
//	                                  │
//	                                  └──(deleted by the accused: it lives)──► refuted
//
// With evidence the watcher writes an accusation into the range that every member
// watches, and waits a grace period from etcd's acknowledgement. A living member deletes
// it. If it still stands after the grace period, one transaction removes the member's
// keys, guarded by that very accusation and the incarnation; then the lease is revoked. A
// process that starts at the address of one that is gone does the same ([Accuser]).
// What follows from which sign is decided in internal/crash/suspicion.
//
// The grace period is the longest of Settings.GracePeriod (100 ms), five of the watcher's requests to etcd,
// by the least of three, and five of the accused's own, as its record says: it
// needs one round trip, for the accusation's event and for its refutation. A member at d
// from etcd, one way, has max(100 ms, 12.5 d) at most if its watchers are near, and if it
// was killed it is removed that long after its connections broke, and the few
// milliseconds that a near watcher needs. One whose grace period would be more than a third
// of its TTL is never accused: its lease decides.
//
// A member whose watcher's stream broke may be the next to be accused and not hear of
// it: it has its keys confirmed by etcd at once, and without an answer until 200 ms (twice
// Settings.GracePeriod) after its grace period its session is suspended until there is one
// ([etcdsession.Session.Suspect], which gives a slow round more time).
//
// # What is not promised
//
// A member that lives, refuses connections, and is at the same moment cut off from
// etcd, or paused, for its grace period, is removed although it lives. So is one that has
// gone farther from etcd than its record says: for three renewal rounds, a
// TTL, after its distance grew more than five times, and while others run a version
// that does not look at the record. It then leads on until its session is suspended: for
// twice Settings.GracePeriod (0.2 s), or ten requests to etcd from when its watcher was lost; or,
// if its connections broke a moment before it was cut off, so that etcd could clear the
// suspicion, or did not break at all, until its deadline. Tokens cover that; Settings.Off,
// everywhere, excludes it.
package crash
