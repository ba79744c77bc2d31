// Package shard is the vocabulary of shards: which shard a key belongs to, who owns one, what
// moves, and the error of a node that does not own it. A shard is one of a fixed number of
// parts of all keys; each is owned by exactly one node, which alone may serve it. Package
// cluster has this node's part in them, as [github.com/goverse/goverse/cluster.Shards].
//
// # What is not promised
//
//   - That an owner serves its shard: it may still wait for the one before, and its OnAcquire
//     may not have returned. Only that node knows, and its answer alone is exact.
//   - That a [Table] is current: it is how things stood at etcd at its revision.
package shard
