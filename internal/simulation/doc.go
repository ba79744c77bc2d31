// Package simulation runs the pure code of a cluster's nodes (package state's reducer,
// candidacy, deadline, watchprogress, suspicion, shardplan, ownership, and the transactions that
// they send) against a simulated etcd and network, in virtual time, and checks the
// promises at every step.
//
//	schedule (seed) ──► world: one clock, one queue of events, one source of chance
//	                      │
//	     processes ◄── network ──► etcd ──► watches
//	         └──────── checks ────────┘
//
// A seed is one schedule: who there is, what goes wrong and when; the same seed gives
// the same events, always. In the end all that was broken is healed, and the cluster
// must be right again within a bound.
//
// What belongs to a node's shell (goroutines, timers, etcd's client) is modelled by as
// little as will do; each piece names the code that it stands for. docs/reliability.md
// says what is modelled and what is not.
//
// Not promised: anything about the shells themselves. A lock that is forgotten there
// is not found here.
package simulation
