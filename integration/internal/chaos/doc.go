// Package chaos runs whole clusters through random faults and judges them by what
// they recorded.
//
// A world is three etcd members, or one, and five nodes, each a process of its own, with a
// relay between every node and every member and one before each node:
//
//	node ──► relay ──► etcd member     (each node has its own relays: own connections)
//	node ──► relay ──► node
//
// In a world that is about etcd's members each node reaches one member alone, and most faults are
// done to members: they stop, stutter, are killed, and do not hear each other. The run's own
// client avoids the member to which something is done. What comes of it, two leaders for a
// moment, is no exempt case.
//
// The nodes share a few shards. The one that serves one writes in it under its epoch, to a
// register whose store keeps the greatest epoch that it has seen; the work goes on under
// an old epoch until that is refused.
//
// All nodes want a few locks, exclusive ones and shared, and increment counters that nothing
// but the lock's guard protects; and all of them try each of a row of fresh effects at the same
// moment, which are lines in a file. Who lost a lock goes on writing until that is refused.
//
// Each node hosts objects that count, with what they have counted in etcd; programs outside of the cluster call them
// through any node, and repeat a call that is not answered by its request id until it is.
//
// If asked for, a hostile outsider attacks every node at the same time, as any program can that reaches its port: it
// forges headers, breaks watches, leaves streams unread, and opens links full of forged calls.
//
// Faults are drawn from a shuffled deck, so that every kind comes equally often; more
// than half of those that can hit one node hit the leader of the moment. A fault has
// an effect that is observed at etcd or at the process; without it, it is not counted.
// Every node records what it claims, leadership and shards (package
// internal/test/history); the checker judges all of it together. After each deck all must
// be well again, every shard served by exactly the owner that an even map names, every lock to
// be had by every node, every effect have taken place, and every object answer through every node.
//
// To see it find something, run it with one of the mutants of package internal/test/mutants, by
// its command try.
//
// # What is not promised
//
// That a seed repeats a run: it repeats which faults come in which order, and not what
// the machine makes of them. Nor that a mutant is found in one world: a run only
// looks at what comes of its faults.
package chaos
