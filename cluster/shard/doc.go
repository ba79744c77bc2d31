// Package shard defines the shards of a cluster: the shard that a key belongs to, the owner of a shard, the
// table of all owners and moves, and the error of a node that does not own a shard. A shard is one of a fixed
// number of parts into which all keys fall. At most one node owns a shard, and only its owner may serve it.
// Package cluster gives access to the shards of this node as [github.com/goverse/goverse/cluster.Shards].
//
// # What is not promised
//
//   - An owner need not serve its shard yet. It may still wait for the former owner, or its OnAcquire may not
//     have returned. Only the owner itself can answer that exactly.
//   - A [Table] need not be current. It shows the state of etcd at the table's revision.
package shard
