// Package clustertest runs whole clusters inside a Go test: nodes over one
// embedded etcd, ready in a fraction of a second, with faults that can be
// switched on and off for each node.
//
//	c := clustertest.New(t, 3)          // three nodes, queued in their order
//	first := c.WaitLeader()
//	first.Faults().CutOff()             // etcd no longer answers it
//	c.WaitLeaderIs(c.Node(1).Address())
//	first.Faults().Reconnect()
//	c.WaitQueue(c.Node(1).Address(), c.Node(2).Address(), first.Address())
//
// Everything is stopped with the test. The test fails if a goroutine of a node,
// or a key of the cluster, is left behind then.
//
// [WithDistance] puts a node far from etcd, in both directions; with [WithEntrances] the
// address of a node that lives can refuse connections.
//
// Nodes talk to etcd through a client of their own each, in which the faults
// are; [Cluster.Client] is outside of them. Waits look at what nodes and etcd
// say, end as soon as it is so, and fail the test with every node's status if it
// does not become so in time.
//
// # What is not promised
//
// A fault lies between a node and its client of etcd, not in the kernel: what
// etcd had sent before a watch was frozen or a node cut off may still arrive.
// [Node.Kill] abandons a node inside the living process; goroutines of your own
// that run in it are yours to end. Timing on a busy machine: leases of a second
// or two run out when the machine stands still for as long.
package clustertest
