// Package cluster makes a process a node of a Goverse cluster. The node opens an etcd session, registers, queues
// for leadership, sees every other node, and hands everything over when it stops.
//
//	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:47001"})
//	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: "localhost:2379"}, n)
//	err = c.Start(ctx)
//	...
//	if c.GetConsensusManager().IsLeader() { ... }
//	err = c.Stop(ctx)
//
// While IsLeader is true on one node it is false on every other, even after the process was paused, and without a
// network call. Every term has a fencing token that only grows; [leaderelection.Term.Txn] makes etcd refuse the writes
// of a term that is over.
//
// # What is not promised
//
//   - If another program deletes the leader's key or revokes its lease, the next leader does not wait for the old
//     one's deadline. The old leader notices through its watch within milliseconds, and at the latest at its next
//     renewal. Tokens cover the overlap.
//   - In fallback, an outside candidate that starts to lead does not wait for the acting leader to notice. The
//     acting term's fence covers the overlap.
//   - A living node can be removed on evidence, if other nodes could not connect to it and it could not reach etcd
//     for the grace period. Tokens cover the overlap.
//   - Work that goes on after its context was cancelled is not stopped. Nor is a pause of a virtual machine
//     noticed that also stops both of its clocks.
//   - etcd can revoke leases that were renewed, when an etcd leader that stood still goes on (etcd's issue 15247).
//     Servers before 3.4.31 and 3.5.13 do so easily; later ones do more rarely, and only in etcd clusters of several
//     members. A node that takes something over waits until the former holder knows, unless that holder is cut off
//     and only its lease was revoked. Tokens cover the overlap.
package cluster
