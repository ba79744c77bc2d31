// Package crashdetector removes a member whose process is gone before its lease
// has run out.
//
// The kernel closes a dead process's sockets at once; a lease takes a TTL to notice.
// So each member keeps a stream open to a few others ([Settings]). When it breaks
// without a goodbye, the watcher dials again. Connections that are refused, several
// times in a row, and another instance that answers, are evidence; silence is none.
//
//	stream broke ──► evidence ──► accusation ──(grace)──► removal
//	                                  │
//	                                  └──(deleted by the accused: it lives)──► refuted
//
// With evidence the watcher writes an accusation into the range that every member
// watches, and waits a grace from etcd's acknowledgement. A living member deletes it.
// If it still stands after the grace, one transaction removes the member's keys,
// guarded by that very accusation and the incarnation; then the lease is revoked. A
// process that starts at the address of one that is gone does the same ([Accuser]).
// What follows from which sign is decided in cluster/internal/suspicion.
//
// A member whose watcher's stream broke may be the next to be accused and not hear of
// it: it has its keys confirmed by etcd at once, and without an answer for three graces
// its session is suspended until there is one ([session.Session.Doubt]).
//
// # What is not promised
//
// A member that lives, refuses connections, and is at the same moment cut off from
// etcd, or paused, for the grace, is removed although it lives. It then leads on for
// three graces at most; or, if its connections broke a moment before it was cut off, so
// that etcd could clear the doubt, or did not break at all, until its deadline. Tokens
// cover that; Settings.Off, everywhere, excludes it.
package crashdetector
