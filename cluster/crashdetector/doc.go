// Package crashdetector removes a member whose process is gone before its lease
// has run out.
//
// Whoever holds evidence against an incarnation writes an accusation into the
// range that every member watches, and waits a grace from etcd's
// acknowledgement. A living member refutes by deleting it ([Refuter]). If it
// still stands after the grace, one transaction removes the member's keys,
// guarded by that very accusation and the incarnation ([Remove]).
//
//	evidence ──► accusation ──(grace)──► removal
//	                  │
//	                  └──(deleted by the accused: it lives)──► refuted
//
// # What is not promised
//
// A member that lives, and can neither be connected to nor reach etcd for the
// grace, or is paused, is removed although it lives; it then leads on until its
// deadline at the latest. Tokens cover that.
package crashdetector
