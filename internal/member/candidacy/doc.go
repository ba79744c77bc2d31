// Package candidacy decides one member's part in the election, as a value: no clock, goroutine, lock or I/O.
// Package leaderelection holds the present value and carries out its orders.
//
//	snapshot, session, time ──► Decide ──► end the term, begin one, one request to etcd
//	                             ▲                                          │
//	                             └─── CampaignJoined, RequestFinished, … ◄──┘
//
// Every method takes a [Candidacy] and returns the next one. One function over one value makes all decisions
// (decide.go): a fault, such as a key that was lost, altered or has reappeared, is just another view. At most
// one request about the own keys is in flight at a time.
//
// Not promised: that this member may act on a term. That also takes a session that is valid at that very
// instant (package etcdsession).
package candidacy
