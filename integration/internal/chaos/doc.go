// Package chaos runs whole clusters through random faults and judges them by what
// they recorded.
//
// A world is three etcd members and five nodes, each a process of its own, with a
// relay between every node and every member and one before each node:
//
//	node ──► relay ──► etcd member     (each node has its own relays: own connections)
//	node ──► relay ──► node
//
// Faults are drawn from a shuffled deck, so that every kind comes equally often; more
// than half of those that can hit one node hit the leader of the moment. A fault has
// an effect that is observed at etcd or at the process; without it, it is not counted.
// Every node records what it claims (package clustertest/history); the checker judges
// all of it together.
//
// # What is not promised
//
// That a seed repeats a run: it repeats which faults come in which order, and not what
// the machine makes of them.
package chaos
