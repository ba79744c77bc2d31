// Package schedule holds what all schedules have in common. A schedule is one run of a world in virtual time over
// a model of etcd (package modeletcd), determined by its seed. The worlds are whole nodes (package simulation),
// lease queues (package leasequeue) and sessions (package etcdsession).
//
//	Suite ──► seeds ──► world: World (events, random source, transcript, counts)
//	                      │
//	                      ├─ faults: at a Link, at etcd; each ends by itself or with HealAll
//	                      └─ Link.Connect ──► modeletcd.Conn, each request with its outcome
//
// The package imports none of the packages under test, so their own tests can use it.
package schedule
