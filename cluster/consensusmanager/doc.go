// Package consensusmanager has what the nodes of a cluster agree on, as one node sees it: the leader, the members, and
// the owners of the shards.
//
//	manager := c.GetConsensusManager() // c is a cluster.Cluster
//	if manager.IsLeader() { ... }
//	owner, ok := manager.Owner("customer/42")
//	changes, err := manager.WatchMembers(ctx)
//
// A program can keep its [ConsensusManager] from before the node starts until after it has stopped, and cannot start or
// stop anything with it. Behind it stands the [Runner], for the packages that assemble a node: this node's part in the
// election, the planning of the shards while that is this node's duty, and this node's own shards ([Shards]).
//
//	NewRunner ──► Start ──► Run ──► Withdraw ──► Relinquish ──► Close
//
// All answers come from the node's own snapshot and session, without a request to etcd.
//
// # What is not promised
//
// Answers about other nodes are as old as the snapshot they come from: the leader may have resigned since, a member may
// have left, and the owner of a shard may not serve it yet or any more. Only IsLeader and Term are exact, as they
// concern this node. A watch delivers the newest value, and not every one in between. Two watches, or two calls, may
// answer from different snapshots.
//
// The package holds no consensus protocol of its own: etcd decides.
package consensusmanager
