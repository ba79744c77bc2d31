// Package cluster makes a process a node of a Goverse cluster: it opens an etcd
// session, registers, queues for leadership, sees every other node, and hands
// everything over when it stops.
//
//	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:47001"})
//	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: "localhost:2379"}, n)
//	err = c.Start(ctx)
//	...
//	if c.GetConsensusManager().IsLeader() { ... }
//	err = c.Stop(ctx)
//
// While IsLeader is true on one node it is false on every other, also after a
// pause of the process, and without a network call. Every term has a fencing
// token that only grows; [election.Term.Txn] lets etcd refuse the writes
// of a term that is over.
//
// # What is not promised
//
//   - If somebody deletes the leader's key or revokes its lease, the next leader
//     does not wait for the old one's deadline. The old one notices from its
//     watch in milliseconds, at the latest at its next renewal. Tokens cover it.
//   - In fallback, an outside candidate that starts to lead does not wait for the
//     acting leader to notice. The acting term's fence covers it.
//   - A node that lives but is removed on evidence (it could not be connected to
//     nor reach etcd for the grace period). Tokens cover it.
//   - Work that goes on after its context was cancelled; a virtual machine paused
//     with both clocks.
//   - etcd that revokes leases that were renewed, when a leader of it that stood still
//     goes on (etcd's issue 15247): servers before 3.4.31 and 3.5.13, and more rarely
//     later ones, of several members. Whatever this node takes over waits until who had it
//     knows, except where that one is cut off and its lease alone was revoked. Tokens
//     cover it.
package cluster
