// Package chaos runs whole clusters through random faults and judges them by the histories they record.
//
// A world has three etcd members, or one, and five nodes, each a process of its own. There is a relay between
// every node and every member, and one in front of each node:
//
//	node ──► relay ──► etcd member     (each node has its own relays, so its own connections)
//	node ──► relay ──► node
//
// With Config.SilenceTimeout, nodes that stand still or are cut off are removed before their leases end, and more kinds
// of faults silence them: processes that stop for up to 30 s, lost hosts, also with a member of etcd, nodes that do not
// reach each other, and the loss of all watchers of a node at once. For the pairs there is another relay from each node
// to each other one:
//
//	node ──► relay of the pair ──► relay ──► node
//
// A fault that silences a node, or keeps it from etcd, may cost it its place. A member that lives and reaches etcd must
// not be removed for its silence.
//
// In a world about etcd's members, each node reaches only one member, and most faults affect members: they are
// stopped, stutter, are killed, or are cut off from each other. The run's own client avoids the affected
// member. Two leaders at a time are a failure there, not an exempt case.
//
// The nodes share a few shards. The node that serves a shard writes in it under its epoch, to a register in a
// store that keeps the greatest epoch it has seen. After losing a shard, a node continues to write under the
// old epoch until a write is refused.
//
// All nodes compete for a few locks, exclusive and shared ones, and increment counters that only the lock's
// guard protects. All of them try each of a series of new effects at the same moment; an effect is a line in a
// file. A node that lost a lock continues to write until a write is refused.
//
// Each node hosts objects that count and store their counts in etcd. Programs outside of the cluster call them
// through any node, and repeat an unanswered call under its request id until it is answered.
//
// With Config.Hostile, a hostile outsider attacks every node at the same time, as any program can that reaches
// its port: it forges headers, breaks watches, leaves streams unread, and opens links full of forged calls.
//
// Faults are drawn from a shuffled deck, so every kind comes equally often. More than half of the faults that
// affect a single node affect the current leader. A fault must have an effect that is observed at etcd or at
// the process; otherwise it is not counted. Every node records its claims, of leadership and of shards (package
// internal/test/history), and the checker judges all of them together. After each deck the world must recover:
// each shard is served by exactly the owner that an even map names, every node can acquire every lock, every
// effect has taken place, and every object answers through every node.
//
// To see it detect something, run it with one of the mutants of package internal/test/mutants, by that
// package's command try.
//
// # What is not promised
//
// A seed does not repeat a run: it repeats the decks, but not the timing of the faults, nor their order where one of
// them has to wait for a node or for etcd. One world need not find a mutant: a run sees only the consequences of its
// own faults.
package chaos
