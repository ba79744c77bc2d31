// Package simulation runs the real nodes of a cluster (package member: session, cache, membership, election,
// crash detection, planner and owners of shards) over a model of etcd (package modeletcd) and a simulated
// network between the nodes, in virtual time. It injects every kind of fault and checks the promises.
//
//	schedule (seed) ──► world: events in virtual time, random sources
//	                      │
//	     hosts: processes ◄──── delivery ────► etcd
//	         ▲     ▲   └──── network ────┐       │
//	       clocks  └─────────────────────┘       │
//	         └───────────── checks ◄─────────────┘
//
// A seed determines one schedule: the nodes, the faults with their times, and the outcome of each request. At
// the end all faults are healed, and the cluster must recover within a bound. The checks inspect the claims of
// every process after each event. They are also notified of each change in etcd, each request, and each event
// of a log.
//
// Only the surroundings are simulated: clocks, the connection to etcd and etcd itself, the streams between
// nodes, which replace those of package node, and the users of a node. A stopped process reads no clock and
// exchanges no messages; timers that end meanwhile find that no time has passed.
//
// Not promised: that a seed gives the same result each time. The seed does not determine the order in which Go
// runs goroutines at one instant; of a hundred seeds one or two differ between two runs. The simulation covers
// neither the parts built on a node (its gRPC server, locks, effects, objects), nor etcd's own client, because
// the model leaves out its connections and retries.
package simulation
