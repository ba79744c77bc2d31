// Package simulation runs the nodes of a cluster as they are (package member: session, cache, membership,
// election, crash detection, planner and owners of shards) over a model of etcd (package modeletcd) and a
// simulated network between them, in virtual time, has everything go wrong, and checks the promises.
//
//	schedule (seed) ──► world: events in virtual time, sources of chance
//	                      │
//	     hosts: processes ◄──── delivery ────► etcd
//	         ▲     ▲   └──── network ────┐       │
//	       clocks  └─────────────────────┘       │
//	         └───────────── checks ◄─────────────┘
//
// A seed is one schedule: who there is, what goes wrong and when, and what becomes of each request. In the end all that
// was broken is healed, and the cluster must be right again within a bound. The checks look at what every process
// claims whenever something has happened, and hear of each change in etcd, request and event of a log.
//
// What is simulated are the surroundings alone: clocks, the way to etcd and etcd itself, streams between nodes, which
// stand for those of package node, and what users do with a node. A process that stands still reads no clock, and
// nothing comes to it or from it; timers that end meanwhile find that no time has passed.
//
// Not promised: that a seed comes out the same. In which order Go runs what is to run at one instant is not
// the seed's: of a hundred seeds one or two differ from one run to the next. Nor anything about what is built
// on a node: its gRPC server, locks, effects, objects; nor about etcd's own client, whose connections and
// retries the model leaves out.
package simulation
