// Package candidacy is one member's part in the election, as a value: no clock, no
// goroutine, no lock, no I/O. Package leaderelection keeps the present one and does
// what it orders.
//
//	snapshot, session, time ──► Look ──► end the term, begin one, one request to etcd
//	                             ▲                                        │
//	                             └──── Joined, Leaving, Finished, … ◄─────┘
//
// Every method takes a [Candidacy] and returns the one that follows. What to do is
// decided by one function over one value (decide.go): a fault (a key lost,
// reappeared, altered) is just another view. At most one request to the own keys is
// under way at a time.
//
// Not promised: that this member may act on a term. That takes a session which is
// valid at that very instant (package etcdsession).
package candidacy
